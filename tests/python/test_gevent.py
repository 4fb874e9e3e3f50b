"""C134: Redis that takes its time holds up one greenlet, not all of them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from slow_proxy import SlowProxy
from web_server import GUNICORN, HERE, get, serving

from support.redis_server import RedisServer

GEVENT = [*GUNICORN, "--worker-class", "gevent", "--workers", "1"]
DELAY = 0.5


@pytest.mark.parametrize("options", [[], ["--preload"]], ids=["lazy", "preload"])
def test_a_gevent_worker_goes_on(options: list[str], redis: RedisServer, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with (
        SlowProxy(redis.port, DELAY) as proxy,
        serving([*GEVENT, *options], "gevent_app:application", log, REDIS_URL=proxy.url) as port,
    ):
        get(port)  # connects
        get(port, "/start")
        begin = time.monotonic()
        with ThreadPoolExecutor(100) as pool:
            count = Counter(status for status, _, _ in pool.map(lambda _: get(port), range(100)))
        elapsed = time.monotonic() - begin
        assert count == {200: 59, 429: 41}, log.read_text()
        # Of what the hundred would take one after another a tenth: they waited side by side.
        assert elapsed < 10 * DELAY
        # A call that blocked would have stopped the ticker for as long as Redis takes.
        assert float(get(port, "/longest-gap")[2]) < DELAY * 0.9


@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_every_call_under(library: str, redis: RedisServer) -> None:
    with SlowProxy(redis.port, 0.2) as slow:
        program = str(HERE / "green_program.py")
        command = [sys.executable, program, library, redis.url, slow.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "done\n"
