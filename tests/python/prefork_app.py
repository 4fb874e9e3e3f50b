"""Apps for test_prefork.py: the limiter is made and used when the app is loaded.

A server that loads the app before it forks has used the limiter in the parent. Answers tell the
process that gave them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from saqiya import AsyncLimiter, Limiter, Store

POLICY = "1/h burst 100"
store = Store(os.environ["REDIS_URL"], deadline=20)
limiter = Limiter(POLICY, store=store, name="shared", failure="error")
awaited = AsyncLimiter(POLICY, store=store, name="shared", failure="error")

assert limiter.check("warm-up")
assert asyncio.run(awaited.check("warm-up"))


def application(
    environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], object]
) -> Iterable[bytes]:
    """WSGI."""
    status = 200
    if environ["PATH_INFO"] != "/health":
        status = limiter.http_status(limiter.check("everybody"))
    start_response(f"{status} Done", [("X-Process", str(os.getpid()))])
    return [b"done"]


async def asgi(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """ASGI."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    status = 200
    if scope["path"] != "/health":
        status = awaited.http_status(await awaited.check("everybody"))
    headers = [(b"x-process", str(os.getpid()).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"done"})
