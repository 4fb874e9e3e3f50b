"""Limiters made and used before real servers fork: C130, C131, C134.

Every worker shares the one exact count, over connections of its own.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import client_ids
from web_server import GUNICORN, UWSGI, get, serving

from support.redis_server import RedisServer

WSGI = "prefork_app:application"
ASGI = "prefork_app:asgi"
PRELOAD = [*GUNICORN, "--preload", "--workers", "4"]

SERVERS = {
    "gunicorn sync": (PRELOAD, WSGI),
    "gunicorn gthread": ([*PRELOAD, "--worker-class", "gthread", "--threads", "4"], WSGI),
    "gunicorn gevent": ([*PRELOAD, "--worker-class", "gevent"], WSGI),
    "gunicorn asgi": ([*PRELOAD, "--worker-class", "asgi"], ASGI),
    "gunicorn uvicorn": ([*PRELOAD, "--worker-class", "uvicorn_worker.UvicornWorker"], ASGI),
    "uwsgi": ([*UWSGI, "--processes", "4"], WSGI),
    "uwsgi threads": ([*UWSGI, "--processes", "2", "--threads", "4"], WSGI),
    "uwsgi lazy-apps": ([*UWSGI, "--processes", "4", "--lazy-apps"], WSGI),
    "uwsgi lazy-apps threads": (
        [*UWSGI, "--lazy-apps", "--processes", "2", "--threads", "4"],
        WSGI,
    ),
}


@pytest.mark.parametrize("name", SERVERS)
def test_workers_share_one_exact_count(name: str, redis: RedisServer, tmp_path: Path) -> None:
    command, app = SERVERS[name]
    log = tmp_path / "log"
    before = client_ids(redis)  # of earlier tests
    with serving(command, app, log, REDIS_URL=redis.url) as port, ThreadPoolExecutor(16) as pool:
        wait_for_two_workers(port, pool)
        loaded = client_ids(redis) - before  # before any worker has asked
        count = Counter(status for status, _, _ in pool.map(lambda _: get(port), range(300)))
        assert count == {200: 100, 429: 200}, log.read_text()
        if "lazy" not in name:
            # The parent's own connection, and no more; it lives on.
            assert len(loaded) == 1
            assert loaded < client_ids(redis)


def wait_for_two_workers(port: int, pool: ThreadPoolExecutor) -> None:
    """One may have loaded the app long before the others."""
    deadline = time.monotonic() + 60
    processes: set[str] = set()
    while len(processes) < 2:
        assert time.monotonic() < deadline
        for _, headers, _ in pool.map(lambda _: get(port, "/health"), range(50)):
            processes |= {value for name, value in headers.items() if name.lower() == "x-process"}
