"""Apps for test_outages.py, of Flask and of ASGI. Each answer tells which process gave it, who
decided and why it was not Redis."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from flask import Flask, Response, g

from saqiya import AsyncLimiter, Decision, Store
from saqiya.flask import RateLimit

LIMIT = "400/h"


def _options() -> dict[str, Any]:
    failure = os.environ["FAILURE"]
    return {
        "store": Store(os.environ["REDIS_URL"], deadline=1),
        "failure": failure,
        "share": 0.25 if failure == "local" else None,
    }


def _told(decision: Decision) -> dict[str, str]:
    return {
        "X-Process": str(os.getpid()),
        "X-Source": decision.source,
        "X-Reason": decision.reason or "",
    }


def create_app() -> Flask:
    app = Flask(__name__)
    limiter = RateLimit(limit=LIMIT, **_options())
    limiter.init_app(app)

    @app.get("/")
    def index() -> str:
        return "done"

    @app.get("/health")
    @limiter.exempt
    def health() -> str:
        return "done"

    @app.after_request
    def tell(response: Response) -> Response:
        if "rate_limit" in g:
            response.headers.update(_told(g.rate_limit))
        return response

    return app


def create_asgi_app() -> Callable[..., Awaitable[None]]:
    limiter = AsyncLimiter(LIMIT, **_options())

    async def app(
        scope: dict[str, Any], _receive: object, send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        status, headers, body = 200, {}, "done"
        if scope["path"] != "/health":
            decision = await limiter.check(scope["client"][0])
            status = limiter.http_status(decision)
            headers = {**limiter.http_headers(decision), **_told(decision)}
            if not decision:
                body = limiter.http_body(decision)
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": body.encode()})

    return app
