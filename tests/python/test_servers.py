"""The example app under real servers, over real sockets."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.redis_server import RedisServer, free_port

HERE = Path(__file__).parent

GUNICORN = [sys.executable, "-m", "gunicorn", "--chdir", str(HERE), "--log-level", "warning"]
SERVERS = {
    "flask-run": [sys.executable, "-m", "flask", "--app", f"{HERE}/server_app.py", "run"],
    "preload-sync": [*GUNICORN, "--preload", "--workers", "4"],
    "preload-threads": [*GUNICORN, "--preload", "--workers", "2", "--threads", "8"],
    "lazy-sync": [*GUNICORN, "--workers", "4"],
}


def get(port: int, path: str = "/") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


@contextmanager
def serving(command: list[str], log: Path, **environment: str) -> Iterator[int]:
    port = free_port()
    if "gunicorn" in command:
        command = [*command, "--bind", f"127.0.0.1:{port}", "server_app:create_app()"]
    else:
        command = [*command, "--port", str(port)]
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=output, stderr=output
        )
        try:
            wait_until_healthy(port, server, log)
            yield port
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
                raise


def wait_until_healthy(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if get(port, "/health")[0] == 200:
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(log.read_text())


@pytest.mark.parametrize("name", SERVERS)
def test_all_workers_share_one_limit(name: str, redis: RedisServer, tmp_path: Path) -> None:
    with serving(SERVERS[name], tmp_path / "log", REDIS_URL=redis.url) as port:
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
    with serving(SERVERS["preload-sync"], tmp_path / "log", **environment) as port:
        before = time.monotonic()
        with ThreadPoolExecutor(16) as pool:
            count = Counter(pool.map(lambda _: get(port)[0], range(200)))
        elapsed = time.monotonic() - before
        assert set(count) == {200, 429}, (tmp_path / "log").read_text()
        assert 20 <= count[200] <= 4 * (20 + 5 * elapsed + 1)


def test_redis_that_goes_and_comes_back(tmp_path: Path) -> None:
    with RedisServer() as server:
        environment = {"REDIS_URL": server.url}
        with serving(SERVERS["preload-sync"], tmp_path / "log", **environment) as port:
            assert get(port)[0] == 200
            server.kill()
            for _ in range(8):
                status, headers, body = get(port)
                assert status == 503
                assert "Retry-After" in headers
                assert json.loads(body)["error"] == "rate_limiter_unavailable"
            server.start()
            deadline = time.monotonic() + 20
            while get(port)[0] == 503:
                assert time.monotonic() < deadline
                time.sleep(0.05)
