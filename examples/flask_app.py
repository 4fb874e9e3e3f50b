"""A Flask app that lets each client make 5 requests per second, 20 at once.

    flask --app examples/flask_app run --port 5000
    REDIS_URL=redis://127.0.0.1:6379 flask --app examples/flask_app run

With REDIS_URL all processes share one limit; without, each has its own.
"""

from __future__ import annotations

import os

from flask import Flask

from saqiya import Store
from saqiya.flask import RateLimit

limiter = RateLimit(limit="5/s burst 20", name="demo")


def create_app(store: Store | str | None = None) -> Flask:
    app = Flask(__name__)
    app.config["SAQIYA_STORE"] = store or os.environ.get("REDIS_URL")
    limiter.init_app(app)

    @app.get("/")
    def index() -> dict[str, bool]:
        return {"ok": True}

    @app.get("/health")
    @limiter.exempt
    def health() -> dict[str, bool]:
        return {"ok": True}

    return app
