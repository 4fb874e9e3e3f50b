"""An app for test_gevent.py: one request asks Redis, another tells how long the hub was held up."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from saqiya import Limiter, Store

store = Store(os.environ["REDIS_URL"], deadline=60)
limiter = Limiter("1/h burst 60", store=store, name="shared", failure="error")
_lock = threading.Lock()
_gaps: list[float] = []


def _tick() -> None:
    last = time.monotonic()
    while True:
        time.sleep(0.001)  # patched: other greenlets run
        now = time.monotonic()
        _gaps.append(now - last)
        last = now


def application(
    environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], object]
) -> Iterable[bytes]:
    path = environ["PATH_INFO"]
    status, body = 200, b""
    if path == "/start":
        with _lock:
            threading.Thread(target=_tick, daemon=True).start()  # patched: a greenlet
    elif path == "/longest-gap":
        body = str(max(_gaps)).encode()
    elif path == "/threads":
        body = str(len(os.listdir("/proc/self/task"))).encode()
    elif path == "/":
        status = limiter.http_status(limiter.check("everybody"))
    start_response(f"{status} Done", [("Content-Length", str(len(body)))])
    return [body]
