"""Limits of the Flask extension that are more than one policy: several rules, plans, pairs."""

from __future__ import annotations

from typing import Any

from conftest import make_memory_store
from flask import Flask, g, request
from test_flask import codes, make_app

from saqiya import Decision, FixedWindow, Limiter, Store
from saqiya.flask import RateLimit, peer_address
from support.redis_server import RedisServer


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
