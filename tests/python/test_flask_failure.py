"""Failure policies of saqiya.flask: C47-C49, C105."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask, Response, g

from saqiya import Limiter, SaqiyaError, Store
from saqiya.flask import RateLimit
from support.redis_server import free_port


@pytest.fixture
def away() -> Store:
    """On a server that is not there."""
    return Store(f"redis://127.0.0.1:{free_port()}")


def app_with(limiter: RateLimit, **config: Any) -> Flask:
    app = Flask(__name__)
    app.config.update(config)
    limiter.init_app(app)

    @app.get("/")
    def index() -> str:
        return g.rate_limit.source if "rate_limit" in g else "free"

    return app


def statuses(app: Flask, count: int, path: str = "/") -> list[int]:
    client = app.test_client()
    return [client.get(path).status_code for _ in range(count)]


def test_local_is_the_default(away: Store) -> None:
    app = app_with(RateLimit(limit="1/h burst 3", store=away))
    assert statuses(app, 5) == [200, 200, 200, 429, 429]
    refused = app.test_client().get("/")
    assert refused.headers["X-RateLimit-Limit"] == "3"
    assert refused.json["error"] == "rate_limited"


def test_open(away: Store) -> None:
    app = app_with(RateLimit(limit="1/h burst 3", store=away, failure="open"))
    assert statuses(app, 10) == [200] * 10
    answer = app.test_client().get("/")
    assert answer.text == "open"
    assert not [name for name, _ in answer.headers if "RateLimit" in name or name == "Retry-After"]


@pytest.mark.parametrize("failure", ["closed", "error"])
def test_closed_and_error(away: Store, failure: Any) -> None:
    app = app_with(RateLimit(limit="1/h burst 3", store=away, failure=failure))
    assert statuses(app, 3) == [503] * 3
    answer = app.test_client().get("/")
    assert 1 <= int(answer.headers["Retry-After"]) <= 5
    assert answer.json["error"] == "rate_limiter_unavailable"
    assert not [name for name, _ in answer.headers if "RateLimit" in name]


def test_the_apps_handler_sees_why(away: Store) -> None:
    seen: list[tuple[str, str, str | None]] = []

    def on_refused(decision: Any) -> Response | None:
        seen.append((decision.outcome, decision.source, decision.reason))
        return Response("later", 418) if decision.source == "closed" else None

    limiter = RateLimit(limit="1/h burst 1", store=away, failure="closed", on_refused=on_refused)
    app = app_with(limiter)

    @app.get("/error")
    @limiter.exempt
    @limiter.limit("1/h", failure="error")
    def error() -> str:
        return "done"

    assert statuses(app, 1) == [418]
    assert statuses(app, 1, "/error") == [503]
    assert seen == [("denied", "closed", "connect"), ("unavailable", "store", "connect")]


def test_routes_inherit_and_override(away: Store) -> None:
    limiter = RateLimit(store=away, failure="local", share=0.5)
    app = app_with(limiter)

    def route(path: str, policy: Any, **options: Any) -> None:
        view = limiter.limit(policy, **options)(lambda: "done")
        app.add_url_rule(path, path.strip("/"), view)

    route("/half", "1/h burst 10")
    route("/tenth", "1/h burst 10", share=0.1)
    route("/fallback", "1/h burst 10", fallback="1/h burst 3")
    route("/open", "1/h burst 10", failure="open")
    route("/closed", "1/h burst 10", failure="closed")
    route("/plan", lambda: "1/h burst 20")
    route("/own", Limiter("1/h burst 10", store=away, failure="error"))
    route("/pairs", [("1/h burst 8", lambda: "a"), ("1/h burst 4", lambda: "b")])
    found = {
        path: statuses(app, 12, path).count(200)
        for path in ("/half", "/tenth", "/fallback", "/open", "/closed", "/plan", "/own", "/pairs")
    }
    assert found == {
        **{"/half": 5, "/tenth": 1, "/fallback": 3, "/open": 12, "/closed": 0},
        **{"/plan": 10, "/own": 0, "/pairs": 2},
    }


def test_configuration(away: Store) -> None:
    limiter = RateLimit(limit="1/h burst 8")
    share = app_with(limiter, SAQIYA_STORE=away, SAQIYA_SHARE=0.25)
    other = Store(f"redis://127.0.0.1:{free_port()}")
    closed = app_with(limiter, SAQIYA_STORE=other, SAQIYA_FAILURE="closed")
    assert statuses(share, 8).count(200) == 2
    assert statuses(closed, 3) == [503] * 3
    for config in ({"SAQIYA_FAILURE": "no"}, {"SAQIYA_SHARE": 2}):
        with pytest.raises(SaqiyaError):
            app_with(limiter, **config)


def test_the_fallback_is_the_app_wide_limits(away: Store) -> None:
    limiter = RateLimit(limit="1/h burst 8", store=away, fallback="1/h burst 2")
    app = app_with(limiter, SAQIYA_SHARE=0.5)

    @app.get("/route")
    @limiter.exempt
    @limiter.limit("1/h burst 10; 1/day burst 6")
    def route() -> str:
        return "done"

    assert statuses(app, 8).count(200) == 2
    assert statuses(app, 8, "/route").count(200) == 3


def test_a_share_goes_with_local_whatever_the_app_says(away: Store) -> None:
    limiter = RateLimit(limit="1/h burst 4", store=away)
    app = app_with(limiter, SAQIYA_FAILURE="closed")

    @app.get("/share")
    @limiter.limit("1/h burst 8", share=0.25)
    def share() -> str:
        return "done"

    assert statuses(app, 1) == [503]
    limiter = RateLimit(store=away)
    app = app_with(limiter, SAQIYA_FAILURE="closed")

    @app.get("/fallback")
    @limiter.limit("1/h burst 8", fallback="1/h burst 2")
    def fallback() -> str:
        return "done"

    assert statuses(app, 4, "/fallback") == [200, 200, 429, 429]


def test_an_open_limit_does_not_hide_another(away: Store) -> None:
    """Of several limits the response describes the one that knows its numbers."""
    limiter = RateLimit(limit="1/h burst 5", store=away, failure="open")
    app = app_with(limiter)

    @app.get("/both")
    @limiter.limit("1/h burst 2", failure="local")
    def both() -> str:
        return str(g.rate_limit.source)

    answer = app.test_client().get("/both")
    assert answer.text == "local"
    assert answer.headers["X-RateLimit-Limit"] == "2"


@pytest.mark.parametrize(
    "options",
    [
        {"failure": "no"},
        {"share": 0},
        {"failure": "open", "share": 0.5},
        {"share": 0.5, "fallback": "1/s"},
        {"fallback": "nothing"},
        {"limit": "1/s; 5/min", "fallback": "1/s"},
    ],
    ids=repr,
)
def test_mistakes_fail_at_registration(options: dict[str, Any]) -> None:
    options = {"limit": "1/s", **options}
    with pytest.raises(SaqiyaError):
        RateLimit(**options)
    with pytest.raises(SaqiyaError):
        RateLimit().limit(**options)
