"""The example app under real servers, over real sockets."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from web_server import GUNICORN, HERE, get, serving

from support.redis_server import RedisServer

APP = "server_app:create_app()"
SERVERS = {
    "flask-run": [sys.executable, "-m", "flask", "--app", f"{HERE}/server_app.py", "run"],
    "preload-sync": [*GUNICORN, "--preload", "--workers", "4"],
    "preload-threads": [*GUNICORN, "--preload", "--workers", "2", "--threads", "8"],
    "lazy-sync": [*GUNICORN, "--workers", "4"],
}


@pytest.mark.parametrize("name", SERVERS)
def test_all_workers_share_one_limit(name: str, redis: RedisServer, tmp_path: Path) -> None:
    with serving(SERVERS[name], APP, tmp_path / "log", REDIS_URL=redis.url) as port:
        before = time.monotonic()
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: get(port), range(80)))
        elapsed = time.monotonic() - before
        count = Counter(status for status, _, _ in answers)
        assert set(count) == {200, 429}, (tmp_path / "log").read_text()
        assert 20 <= count[200] <= 20 + 5 * elapsed + 1
        for status, headers, body in answers:
            assert headers["X-RateLimit-Limit"] == "20"
            assert headers["RateLimit-Policy"] == '"demo";q=20;w=4'
            assert ("Retry-After" in headers) == (status == 429)
            if status == 429:
                assert json.loads(body)["error"] == "rate_limited"
                assert headers["Retry-After"] == "1"
        (key,) = redis.keys()
        assert 0 < int(redis.cli("PTTL", key)) <= 4_001


def test_without_redis_each_worker_limits_by_itself(tmp_path: Path) -> None:
    environment = {"REDIS_URL": ""}
    with serving(SERVERS["preload-sync"], APP, tmp_path / "log", **environment) as port:
        before = time.monotonic()
        with ThreadPoolExecutor(16) as pool:
            count = Counter(pool.map(lambda _: get(port)[0], range(200)))
        elapsed = time.monotonic() - before
        assert set(count) == {200, 429}, (tmp_path / "log").read_text()
        assert 20 <= count[200] <= 4 * (20 + 5 * elapsed + 1)


def test_redis_that_goes_and_comes_back(tmp_path: Path) -> None:
    with RedisServer() as server:
        environment = {"REDIS_URL": server.url}
        with serving(SERVERS["preload-sync"], APP, tmp_path / "log", **environment) as port:
            assert get(port)[0] == 200
            server.kill()
            for _ in range(8):  # each worker goes on limiting by itself
                status, headers, _ = get(port)
                assert status == 200
                assert headers["X-RateLimit-Limit"] == "20"
            server.start()
            deadline = time.monotonic() + 20
            while not server.keys():
                assert get(port)[0] in (200, 429)
                assert time.monotonic() < deadline
                time.sleep(0.05)
