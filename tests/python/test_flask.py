"""The Flask extension, through real requests of Flask's client."""

from __future__ import annotations

import asyncio
import importlib.util
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import make_memory_store
from flask import Blueprint, Flask, Response, g, jsonify, request
from flask.testing import FlaskClient
from flask.views import MethodView
from werkzeug.exceptions import BadRequest

from saqiya import Decision, FixedWindow, Limiter, SaqiyaError, Store, TokenBucket
from saqiya.flask import RateLimit, peer_address
from support.redis_server import RedisServer


def make_app(**config: Any) -> Flask:
    app = Flask(__name__)
    app.config.update(config)
    app.add_url_rule("/", "index", lambda: {"ok": True})
    return app


def codes(client: FlaskClient, path: str, times: int, **options: Any) -> list[int]:
    answers = []
    for _ in range(times):
        with closing(client.open(path, **options)) as answer:
            answers.append(answer.status_code)
    return answers


def test_a_burst_is_answered_20_times() -> None:
    store, clock = make_memory_store()
    app = make_app()
    RateLimit(app, "5/s burst 20", store=store)
    client = app.test_client()
    assert codes(client, "/", 30) == [200] * 20 + [429] * 10
    clock.advance(1)
    assert codes(client, "/", 8) == [200] * 5 + [429] * 3


def test_fields_and_body() -> None:
    store, _ = make_memory_store()
    app = make_app()
    RateLimit(app, "5/s burst 20", store=store, name="api")
    client = app.test_client()
    allowed = client.get("/")
    assert allowed.json == {"ok": True}
    assert "Retry-After" not in allowed.headers
    assert allowed.headers["X-RateLimit-Limit"] == "20"
    assert allowed.headers["X-RateLimit-Remaining"] == "19"
    assert allowed.headers["X-RateLimit-Reset"] == "1"
    assert allowed.headers["RateLimit"] == '"api";r=19;t=1'
    assert allowed.headers["RateLimit-Policy"] == '"api";q=20;w=4'
    codes(client, "/", 19)
    refused = client.get("/")
    assert refused.status_code == 429
    assert refused.mimetype == "application/json"
    assert refused.json is not None
    assert refused.json["error"] == "rate_limited"
    assert refused.headers["Retry-After"] == "1"
    assert refused.headers["X-RateLimit-Remaining"] == "0"
    assert client.head("/").status_code == 429


@pytest.mark.parametrize(
    ("fields", "legacy", "draft"), [("legacy", True, False), ("draft", False, True)]
)
def test_fields_can_be_chosen(fields: str, legacy: bool, draft: bool) -> None:
    app = make_app()
    RateLimit(app, "1/h", fields=fields)
    client = app.test_client()
    client.get("/")
    headers = client.get("/").headers
    assert "Retry-After" in headers
    assert ("X-RateLimit-Limit" in headers) == legacy
    assert ("RateLimit" in headers) == draft


def test_c103_whatever_fails_counts() -> None:
    def app_that_fails() -> FlaskClient:
        app = make_app()
        RateLimit(app, "1/h burst 2")

        @app.post("/json")
        def read_json() -> Response:
            return jsonify(request.get_json())

        @app.get("/schema")
        def schema() -> None:
            raise BadRequest("no")

        return app.test_client()

    for path, method, code in (
        ("/unknown", "GET", 404),
        ("/json", "POST", 400),
        ("/schema", "GET", 400),
        ("/", "DELETE", 405),
    ):
        client = app_that_fails()
        options = {"method": method, "data": "{", "content_type": "application/json"}
        assert codes(client, path, 3, **options) == [code, code, 429]
        assert client.open(path, method=method).headers["X-RateLimit-Remaining"] == "0"


def test_c100_static_files_are_free(tmp_path: Path) -> None:
    (tmp_path / "style.css").write_text("p {}")
    app = Flask(__name__, static_folder=str(tmp_path), static_url_path="/static")
    pages = Blueprint(
        "pages",
        __name__,
        static_folder=str(tmp_path),
        static_url_path="/static",
        url_prefix="/pages",
    )
    app.register_blueprint(pages)
    RateLimit(app, "1/h")
    client = app.test_client()
    assert set(codes(client, "/static/style.css", 1_000)) == {200}
    assert set(codes(client, "/pages/static/style.css", 1_000)) == {200}
    assert codes(client, "/unknown", 2) == [404, 429]


def test_exempt_frees_one_view_only() -> None:
    app = make_app()
    limiter = RateLimit(app, "1/h")

    def view() -> str:
        return "ok"

    app.add_url_rule("/free", "free", limiter.exempt(view))
    app.add_url_rule("/not-free", "not-free", view)
    client = app.test_client()
    assert set(codes(client, "/free", 20)) == {200}
    assert "X-RateLimit-Limit" not in client.get("/free").headers
    assert codes(client, "/not-free", 2) == [200, 429]


def test_a_route_has_a_limit_besides_the_app() -> None:
    app = Flask(__name__)
    limiter = RateLimit(app, "1/h burst 5")

    @app.get("/search")
    @limiter.limit("1/h burst 2", name="search")
    def search() -> dict[str, Any]:
        decision: Decision = g.rate_limit
        return {"remaining": decision.remaining}

    @app.get("/other")
    def other() -> str:
        return "ok"

    client = app.test_client()
    first = client.get("/search")
    assert first.json == {"remaining": 1}
    assert first.headers["X-RateLimit-Limit"] == "2"  # the tighter one
    assert first.headers["RateLimit"] == '"search";r=1;t=3600, "default";r=4;t=3600'
    assert first.headers["RateLimit-Policy"] == '"search";q=2;w=7200, "default";q=5;w=18000'
    assert codes(client, "/search", 2) == [200, 429]
    refused = client.get("/search")
    assert refused.status_code == 429
    assert refused.headers["X-RateLimit-Limit"] == "2"
    assert codes(client, "/other", 2) == [200, 429]
    assert client.get("/search").headers["X-RateLimit-Limit"] == "5"


def test_limits_stack_on_one_view() -> None:
    app = Flask(__name__)
    limiter = RateLimit(app)

    @app.get("/")
    @limiter.limit("1/h burst 3")
    @limiter.limit("1/h burst 3", cost=2)
    def view() -> str:
        return "ok"

    assert codes(app.test_client(), "/", 3) == [200, 429, 429]


def test_c107_views_of_one_name_do_not_share() -> None:
    app = Flask(__name__)
    store, _ = make_memory_store()
    limiter = RateLimit(app, store=store)

    def make(number: int) -> Any:
        @limiter.limit("1/h burst 2")
        def view() -> str:
            return str(number)

        return view

    class Items(MethodView):
        @limiter.limit("1/h burst 2")
        def get(self) -> str:
            return "get"

        @limiter.limit("1/h burst 2")
        def post(self) -> str:
            return "post"

    for number in range(3):
        app.add_url_rule(f"/{number}", f"view{number}", make(number))
    app.add_url_rule("/lambda", "lambda", limiter.limit("1/h burst 2")(lambda: "lambda"))
    app.add_url_rule("/lambda2", "lambda2", limiter.limit("1/h burst 2")(lambda: "lambda2"))
    app.add_url_rule("/items", view_func=Items.as_view("items"))
    app.add_url_rule("/things", view_func=Items.as_view("things"))
    client = app.test_client()
    for path in ("/0", "/1", "/2", "/lambda", "/lambda2", "/items", "/things"):
        assert codes(client, path, 3) == [200, 200, 429], path
    assert codes(client, "/items", 3, method="POST") == [200, 200, 429]


def test_a_function_that_is_no_view_can_be_limited() -> None:
    app = Flask(__name__)
    limiter = RateLimit(app)

    @limiter.limit("1/h")
    def expensive() -> str:
        return "ok"

    @app.get("/")
    @limiter.limit("1/h burst 5")
    def view() -> Any:
        return expensive()

    assert codes(app.test_client(), "/", 2) == [200, 429]


def test_a_name_is_shared() -> None:
    app = Flask(__name__)
    limiter = RateLimit(app)
    app.add_url_rule("/a", "a", limiter.limit("1/h burst 3", name="both")(lambda: "a"))
    app.add_url_rule("/b", "b", limiter.limit("1/h burst 3", name="both")(lambda: "b"))
    client = app.test_client()
    assert codes(client, "/a", 2) + codes(client, "/b", 2) == [200, 200, 200, 429]


def test_c119_one_extension_two_apps() -> None:
    limiter = RateLimit(limit="1/h burst 4")

    @limiter.limit("1/h burst 2")
    def view() -> str:
        return "ok"

    def create_app() -> Flask:
        app = make_app()
        limiter.init_app(app)
        app.add_url_rule("/view", "view", view)
        return app

    first, second = create_app().test_client(), create_app().test_client()
    for client in (first, second):
        assert codes(client, "/view", 3) == [200, 200, 429]
        assert codes(client, "/", 2) == [200, 429]


def test_c119_two_apps_on_two_databases(redis: RedisServer) -> None:
    limiter = RateLimit(limit="1/h burst 2")
    clients = []
    for database in (1, 2):
        app = make_app(SAQIYA_STORE=Store(f"{redis.url}/{database}", deadline=10))
        limiter.init_app(app)
        clients.append(app.test_client())
    for client in clients:
        assert codes(client, "/", 3) == [200, 200, 429]
    assert len(redis.cli("KEYS", "*", database=1).split()) == 1
    same = make_app(SAQIYA_STORE=Store(f"{redis.url}/1", deadline=10))
    RateLimit(same, "1/h burst 2")
    assert codes(same.test_client(), "/", 1) == [429]


def test_routes_share_redis_between_processes(redis: RedisServer) -> None:
    """Two apps stand for two workers that run the same code."""

    def worker() -> FlaskClient:
        app = Flask(__name__)
        limiter = RateLimit(app, store=Store(redis.url, deadline=10))
        for number in range(2):
            view = limiter.limit("1/h burst 2")(lambda: "ok")
            app.add_url_rule(f"/{number}", f"view{number}", view)
        return app.test_client()

    first, second = worker(), worker()
    assert codes(first, "/0", 1) + codes(second, "/0", 2) == [200, 200, 429]
    assert codes(second, "/1", 1) + codes(first, "/1", 2) == [200, 200, 429]


def test_the_key_is_the_peer_or_what_a_function_says() -> None:
    def user() -> str | None:
        return request.headers.get("User")

    app = make_app()
    limiter = RateLimit(app, "1/h")
    view = limiter.limit("1/h", key=user)(lambda: "ok")
    app.add_url_rule("/user", "user", limiter.exempt(view))
    client = app.test_client()
    for address in ("192.0.2.1", "192.0.2.2", "::1"):
        options = {"environ_base": {"REMOTE_ADDR": address}}
        assert codes(client, "/", 2, **options) == [200, 429]
    forged = {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9"}
    options = {"environ_base": {"REMOTE_ADDR": "192.0.2.1"}, "headers": forged}
    assert codes(client, "/", 1, **options) == [429]
    assert codes(client, "/", 2, environ_base={"REMOTE_ADDR": None}) == [200, 429]
    for name in ("ann", "bob"):
        assert codes(client, "/user", 2, headers={"User": name}) == [200, 429]
    assert codes(client, "/user", 5) == [200] * 5  # no key, no limit


def test_preflight_can_be_skipped() -> None:
    preflight = {"Origin": "https://a.example", "Access-Control-Request-Method": "GET"}
    for skip in (True, False):
        app = make_app()
        RateLimit(app, "1/h burst 2", skip_preflight=skip)
        client = app.test_client()
        answers = codes(client, "/", 3, method="OPTIONS", headers=preflight)
        assert answers == ([200] * 3 if skip else [200, 200, 429])
        assert codes(client, "/", 3, method="OPTIONS")[-1] == 429


def test_the_answer_can_be_made_by_the_app() -> None:
    def on_refused(decision: Decision) -> Any:
        if request.args.get("default"):
            return None
        return f"wait {decision.retry_after:.0f} s of {decision.limit}", 418

    app = make_app()
    RateLimit(app, "1/h", on_refused=on_refused)
    client = app.test_client()
    client.get("/")
    refused = client.get("/")
    assert (refused.status_code, refused.text) == (418, "wait 3600 s of 1")
    assert "Retry-After" in refused.headers
    assert client.get("/?default=1").status_code == 429


def test_c99_a_refusal_passes_the_normal_response_path() -> None:
    app = make_app()
    RateLimit(app, "1/h")

    @app.after_request
    def allow_origin(response: Response) -> Response:
        response.headers["Access-Control-Allow-Origin"] = "*"
        return response

    client = app.test_client()
    client.get("/")
    refused = client.get("/")
    assert (refused.status_code, refused.headers["Access-Control-Allow-Origin"]) == (429, "*")


def test_a_view_that_raises_still_tells_the_limit() -> None:
    app = make_app()
    RateLimit(app, "1/h burst 2")

    @app.get("/broken")
    def broken() -> str:
        raise RuntimeError("broken")

    answer = app.test_client().get("/broken")
    assert (answer.status_code, answer.headers["X-RateLimit-Remaining"]) == (500, "1")


def test_a_store_that_is_away_answers_503() -> None:
    app = make_app(SAQIYA_STORE="redis://127.0.0.1:1")
    RateLimit(app, "1/h")
    answer = app.test_client().get("/")
    assert answer.status_code == 503
    assert answer.json is not None
    assert answer.json["error"] == "rate_limiter_unavailable"
    assert 1 <= int(answer.headers["Retry-After"]) <= 5
    assert "X-RateLimit-Limit" not in answer.headers
    assert "RateLimit" not in answer.headers


def test_c115_async_views() -> None:
    app = make_app()
    limiter = RateLimit(app)

    @app.get("/async")
    @limiter.limit("1/h burst 2")
    async def view() -> str:
        """Its own words."""
        await asyncio.sleep(0)
        return "ok"

    assert (view.__name__, view.__doc__) == ("view", "Its own words.")
    assert codes(app.test_client(), "/async", 3) == [200, 200, 429]


def test_two_extensions_on_one_app() -> None:
    app = make_app()
    RateLimit(app, "1/h burst 2", name="second-tightest")
    RateLimit(app, "1/h burst 9", name="loose")
    client = app.test_client()
    assert client.get("/").headers["X-RateLimit-Limit"] == "2"
    assert codes(client, "/", 2) == [200, 429]


def test_configuration() -> None:
    app = make_app(SAQIYA_LIMIT="1/h burst 3")
    limiter = RateLimit(limit="1/h")
    limiter.init_app(app)
    assert codes(app.test_client(), "/", 4) == [200, 200, 200, 429]
    with pytest.raises(RuntimeError, match="already"):
        limiter.init_app(app)
    numbers = make_app(SAQIYA_LIMIT=TokenBucket(2, 1, 3600), SAQIYA_STORE=Store())
    RateLimit(numbers)
    assert codes(numbers.test_client(), "/", 3) == [200, 200, 429]
    free = make_app(SAQIYA_LIMIT=None)
    RateLimit(free, "1/h")
    assert codes(free.test_client(), "/", 3) == [200, 200, 200]


def test_several_rules() -> None:
    store, clock = make_memory_store()
    app = make_app()
    RateLimit(app, ["5/s burst 3", "fixed-window: 10/h"], store=store, name="api")
    client = app.test_client()
    first = client.get("/")
    assert first.headers["RateLimit-Policy"].count('"api-') == 2
    assert first.headers["RateLimit"].startswith('"api-1";r=2;')
    assert codes(client, "/", 3) == [200, 200, 429]
    clock.advance(10)
    assert codes(client, "/", 3) == [200] * 3
    clock.advance(10)
    assert codes(client, "/", 3) == [200] * 3
    clock.advance(10)
    assert codes(client, "/", 2) == [200, 429]
    refused = client.get("/")
    assert refused.headers["X-RateLimit-Limit"] == "10"
    assert refused.headers["RateLimit"].startswith('"api-2";r=0;')


PLANS = {"free": "10/min", "pro": "100/min", "none": None, "zero": "0/s"}


def test_c161_plans() -> None:
    store, _ = make_memory_store()
    app = Flask(__name__)
    limiter = RateLimit(app, store=store)
    shared = Limiter("3/min", store=store, name="shared")
    plans: dict[str, str] = {}

    def plan() -> Any:
        name = plans[request.headers["User"]]
        return shared if name == "shared" else PLANS[name]

    @app.get("/")
    @limiter.limit(plan, key=lambda: request.headers["User"])
    def view() -> str:
        return "ok"

    client = app.test_client()

    def passes(user: str, times: int) -> int:
        return codes(client, "/", times, headers={"User": user}).count(200)

    plans.update(ann="free", bob="free", cyd="pro", dan="none", eve="zero", fay="shared")
    assert passes("ann", 15) == 10
    assert passes("bob", 6) == 6  # users of one plan are independent
    assert passes("cyd", 40) == 40
    assert passes("dan", 300) == 300
    assert "RateLimit" not in client.get("/", headers={"User": "dan"}).headers
    assert passes("eve", 2) == 0
    assert passes("fay", 5) == 3
    # A plan that changes keeps the used share: ann, who has nothing left, waits no longer than for
    # one token of the new plan; bob, who has used 6 of 10, has 40 of 100 left.
    plans.update(ann="pro", bob="pro", cyd="free")
    refused = client.get("/", headers={"User": "ann"})
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert passes("bob", 60) == 40
    assert passes("cyd", 15) == 6


def test_plans_of_the_whole_app() -> None:
    store, _ = make_memory_store()
    app = make_app()

    def plan() -> Any:
        wish = request.args["plan"]
        return ["2/h", FixedWindow(5, 86_400)] if wish == "list" else wish or None

    RateLimit(app, plan, store=store)
    client = app.test_client()
    assert codes(client, "/?plan=", 9) == [200] * 9
    assert codes(client, "/?plan=list", 3) == [200, 200, 429]
    for number in range(2_000):  # as many plans as there are users
        assert client.get(f"/?plan={number + 2_001}/s").status_code == 200
    assert codes(client, "/?plan=5 per moon", 1) == [500]


def test_limits_decided_together() -> None:
    store, _ = make_memory_store()
    app = Flask(__name__)
    limiter = RateLimit(app, store=store)

    def user() -> str | None:
        return request.headers.get("User")

    pairs: Any = [("sliding-log: 4/h", peer_address), ("2/h", user), (lambda: None, user)]

    @app.get("/")
    @limiter.limit(pairs, name="both")
    def view() -> dict[str, int]:
        decision: Decision = g.rate_limit
        return {"item": decision.item, "remaining": decision.remaining}

    client = app.test_client()
    ann, bob = {"User": "ann"}, {"User": "bob"}
    first = client.get("/", headers=ann)
    assert first.json == {"item": 1, "remaining": 1}
    assert first.headers["X-RateLimit-Limit"] == "2"
    assert first.headers["RateLimit"] == '"both-2";r=1;t=1800, "both-1";r=3;t=3600'
    assert codes(client, "/", 4, headers=ann) == [200, 429, 429, 429]
    refused = client.get("/", headers=ann)
    assert refused.headers["RateLimit"].startswith('"both-2";r=0;')
    assert '"both-1";r=2;' in refused.headers["RateLimit"]  # not charged by what was refused
    assert refused.json is not None
    assert refused.json["error"] == "rate_limited"
    assert codes(client, "/", 3, headers=bob) == [200, 200, 429]
    assert codes(client, "/", 2) == [429, 429]  # no user; the address has used all
    assert codes(client, "/", 5, environ_base={"REMOTE_ADDR": "192.0.2.9"}) == [200] * 4 + [429]


def test_equal_limits_decided_together_keep_apart(redis: RedisServer) -> None:
    """One key in two roles: an address that is somebody's name."""
    store = Store(redis.url, deadline=10)
    app = make_app()
    RateLimit(app, [("2/h", lambda: "x"), ("2/h", lambda: "x")], store=store)
    assert codes(app.test_client(), "/", 3) == [200, 200, 429]
    assert len(redis.keys()) == 2


def test_mistakes_fail_at_registration() -> None:
    limiter = RateLimit()
    for make in (
        lambda: RateLimit(limit="5 per moon"),
        lambda: RateLimit(limit="1/s", name="x" * 65),
        lambda: RateLimit(fields="some"),
        lambda: limiter.limit("5 per moon"),
        lambda: limiter.limit("1/s", name="é"),
        lambda: limiter.limit("1/s", cost=-1),
        lambda: limiter.limit(lambda: "1/s", cost=-1),
        lambda: limiter.limit(lambda: "1/s", name="é"),
        lambda: limiter.limit([("1/s", peer_address), ("5 per moon", peer_address)]),
        lambda: limiter.limit([("1/s", peer_address), ("2/s", peer_address)], name="x" * 63),
        lambda: limiter.limit("1/s; 2/s"),
        lambda: RateLimit(make_app(SAQIYA_STORE="what://"), "1/s"),
        lambda: RateLimit(make_app(SAQIYA_LIMIT="1/moon"), "1/s"),
    ):
        with pytest.raises((SaqiyaError, ValueError)):
            make()
    app = Flask(__name__)
    app.add_url_rule("/", "index", limiter.limit("1/s")(lambda: "ok"))
    app.testing = True
    with pytest.raises(RuntimeError, match="init_app"):
        app.test_client().get("/")


def test_the_example(redis: RedisServer) -> None:
    path = Path(__file__).parents[2] / "examples" / "flask_app.py"
    spec = importlib.util.spec_from_file_location("flask_app", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for store in (None, Store(redis.url, deadline=10)):
        client = module.create_app(store).test_client()
        answers = codes(client, "/", 30)
        assert answers[:20] == [200] * 20
        assert set(answers[22:]) == {429}
        assert set(codes(client, "/health", 50)) == {200}
        assert client.get("/health").json == {"ok": True}
