"""A login that counts failures: 20 an hour for each address and 5 in 15 minutes for each user.

    flask --app examples/login_flask run --port 5000

Both are decided at once, before the password is looked at: either both are charged, or neither is.
A login that succeeds gets its charge back, so that only failures count.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from flask import Flask, Response, request

from saqiya import Limiter, Store, check_all, refund_all


def create_app(password_is_right: Callable[[str, str], bool], store: Store | None = None) -> Flask:
    app = Flask(__name__)
    store = store or Store(os.environ.get("REDIS_URL", "memory://"))
    # While Redis does not answer nobody logs in, so that nobody can guess passwords meanwhile.
    per_address = Limiter(
        "sliding-window: 20/hour", store=store, name="login-address", failure="closed"
    )
    per_user = Limiter("sliding-log: 5/15min", store=store, name="login-user", failure="closed")

    @app.post("/login")
    def login() -> Response | tuple[dict[str, str], int]:
        user, password = request.form["user"], request.form["password"]
        if len(user) > 256:  # not a key, and not a user
            return {"error": "the user name is too long"}, 400
        items = [(per_address, request.remote_addr or ""), (per_user, user)]
        decision = check_all(items)
        if not decision:  # 429, or 503 when the store is away
            limiter = items[decision.item][0]  # the one that bound
            body, status = limiter.http_body(decision), limiter.http_status(decision)
            headers = limiter.http_headers(decision)
            return Response(body, status, headers, content_type="application/json")
        if not password_is_right(user, password):
            return {"error": "wrong user or password"}, 401
        refund_all(items, decision)
        return {"user": user}, 200

    return app
