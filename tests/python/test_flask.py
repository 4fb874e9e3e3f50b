"""The Flask extension, through real requests of Flask's client."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import make_memory_store
from flask import Blueprint, Flask, Response, g, jsonify, request
from flask.testing import FlaskClient
from flask.views import MethodView
from werkzeug.exceptions import BadRequest

from saqiya import Decision, Limiter, SaqiyaError, Store, TokenBucket
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
    RateLimit(app, "1/h", failure="error")
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


def test_mistakes_of_type_fail_at_registration() -> None:
    limiter = RateLimit()
    wrong: list[tuple[str, Callable[[], Any]]] = [
        ("app must be a Flask", lambda: RateLimit("5/s")),  # type: ignore[arg-type]
        ("app must be a Flask", lambda: limiter.init_app("5/s")),  # type: ignore[arg-type]
        ("key must be", lambda: RateLimit(limit="5/s", key="user")),  # type: ignore[arg-type]
        ("key must be", lambda: limiter.limit("5/s", key="user")),  # type: ignore[arg-type]
        ("key must be", lambda: limiter.limit([("5/s", "user")])),  # type: ignore[list-item]
        ("on_refused must be", lambda: RateLimit(on_refused=429)),  # type: ignore[arg-type]
    ]
    for text, make in wrong:
        with pytest.raises(TypeError, match=text):
            make()


def test_a_cost_that_can_never_be_allowed_fails_at_registration() -> None:
    limiter = RateLimit()
    for limit in (
        "5/s",
        "9/h; 5/s",
        Limiter("5/s"),
        [("9/s", peer_address), ("5/s", peer_address)],
    ):
        with pytest.raises(SaqiyaError, match="cost 6 is more than '"):
            limiter.limit(limit, cost=6)
        limiter.limit(limit, cost=5)
    limiter.limit("0/s", cost=6)  # refuses everything, and is meant to
    limiter.limit("unlimited", cost=6)


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
