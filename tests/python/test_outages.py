"""Redis dies under load and comes back: threads, event loops, Flask under gunicorn: C46, C47, C51,
C53, C164."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvloop
from web_server import GUNICORN, HERE, get, serving

from saqiya import AsyncLimiter, Decision, Limiter, Store
from support.redis_server import RedisServer

OUTAGE = 1.0  # s
POLICY = "1000000/s"  # of which nothing is refused


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """One to be killed."""
    with RedisServer() as server:
        yield server


class Load:
    """Counts what callers get until they are told to stop."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.found: Counter[tuple[str, str, str | None]] = Counter()
        self.errors: list[BaseException] = []

    def count(self, decision: Decision) -> None:
        self.found[decision.outcome, decision.source, decision.reason] += 1

    def wait_for(self, source: str) -> None:
        """Until another decision of this source has come."""
        before = self.of(source)
        deadline = time.monotonic() + 30
        while self.of(source) == before:
            assert time.monotonic() < deadline, self.found
            time.sleep(0.01)

    def of(self, source: str) -> int:
        return sum(count for found, count in self.found.copy().items() if found[1] == source)


def outage(load: Load, server: RedisServer, how: str, by: str) -> None:
    """by: the source of what is decided meanwhile."""
    load.wait_for("store")
    if how == "killed":
        server.kill()
    else:
        server.pause()
    load.wait_for(by)
    time.sleep(OUTAGE)
    if how == "killed":
        server.start()
    else:
        server.resume()
    load.wait_for("store")


@pytest.mark.parametrize("how", ["killed", "frozen"])
@pytest.mark.parametrize("failure", ["local", "open", "closed"])
def test_sixteen_threads(
    server: RedisServer, failure: Any, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "saqiya")
    store = Store(server.url, deadline=0.5)
    limiter = Limiter(POLICY, store=store, failure=failure)
    load = Load()

    def work() -> None:
        try:
            while not load.stop.is_set():
                load.count(limiter.check("k"))
        except BaseException as error:
            load.errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            outage(load, server, how, failure)
    finally:
        load.stop.set()
        for thread in threads:
            thread.join(60)
    finish(load, store, failure, caplog)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_an_event_loop(
    server: RedisServer, how: str, new_loop: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "saqiya")
    store = Store(server.url, deadline=0.5)
    limiter = AsyncLimiter(POLICY, store=store)
    load = Load()

    async def task() -> None:
        while not load.stop.is_set():
            load.count(await limiter.check("k"))
            await asyncio.sleep(0.001)

    async def tasks() -> None:
        await asyncio.gather(*(task() for _ in range(50)))

    def run() -> None:
        loop = new_loop()
        try:
            loop.run_until_complete(tasks())
        except BaseException as error:
            load.errors.append(error)
        finally:
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        for _ in range(2):
            outage(load, server, how, "local")
    finally:
        load.stop.set()
        thread.join(60)
    finish(load, store, "local", caplog)


def finish(load: Load, store: Store, failure: str, caplog: pytest.LogCaptureFixture) -> None:
    assert load.errors == []
    outcome = "denied" if failure == "closed" else "allowed"
    assert {found[:2] for found in load.found} == {("allowed", "store"), (outcome, failure)}
    stats = store.stats()
    assert stats.failures == load.of(failure)
    assert stats.allowed == load.of("store")
    assert not stats.degraded
    assert 2 <= len(caplog.records) <= 5
    assert caplog.records[0].__dict__["saqiya"]["event"] == "outage"


WORKERS = 4
UVICORN = [sys.executable, "-m", "uvicorn", "--app-dir", str(HERE), "--log-level", "warning"]
UVICORN += ["--lifespan", "off", "--no-server-header", "--factory", "outage_app:create_asgi_app"]


@pytest.mark.parametrize("workers", ["sync", "gthread", "gevent"])
@pytest.mark.parametrize("failure", ["local", "open", "closed", "error"])
def test_a_flask_app(server: RedisServer, failure: str, workers: str, tmp_path: Path) -> None:
    command = [*GUNICORN, "--preload", "--workers", str(WORKERS), "--worker-class", workers]
    if workers == "gthread":
        command += ["--threads", "4"]
    check_web_server(command, "outage_app:create_app()", WORKERS, server, failure, tmp_path / "log")


@pytest.mark.parametrize("failure", ["local", "open", "closed", "error"])
def test_an_asgi_app(server: RedisServer, failure: str, tmp_path: Path) -> None:
    check_web_server(UVICORN, "", 1, server, failure, tmp_path / "log")


Response = tuple[int, dict[str, str], bytes]


def check_web_server(
    command: list[str], app: str, processes: int, server: RedisServer, failure: str, log: Path
) -> None:
    """Redis freezes and dies in the middle of a wave of requests: nothing is ever a 500, nor late.

    The limit is 400 per hour, of which each process may use a quarter by itself.
    """
    with (
        serving(command, app, log, REDIS_URL=server.url, FAILURE=failure) as port,
        ThreadPoolExecutor(16) as pool,
    ):

        def ask(number: int) -> Response:
            status, headers, body = get(port)
            if number == 50:
                server.pause()
                time.sleep(0.3)  # the others' checks are under way, within their deadline
                server.kill()
            return status, {name.lower(): value for name, value in headers.items()}, body

        answers = list(pool.map(ask, range(700)))
        assert {status for status, _, _ in answers} <= {200, 429, 503}, log.read_text()
        by_redis = [answer for answer in answers if not answer[1]["x-reason"]]
        others = [answer for answer in answers if answer[1]["x-reason"]]
        assert {status for status, _, _ in by_redis} == {200}
        assert len(others) >= 600
        # These were asked of it when it died. (Or before, if the machine stood still for so long.)
        assert {headers["x-reason"] for _, headers, _ in others} & {"lost", "timeout"}
        check_others(others, failure)
        server.start()
        give_up = time.monotonic() + 30
        while not all(decided_by_redis(*answer) for answer in pool.map(ask, range(32))):
            assert time.monotonic() < give_up
    # Of each process: that it went, that it came back.
    lines = [line for line in log.read_text().splitlines() if "Redis" in line]
    assert len(lines) <= 5 * processes


def check_others(answers: list[Response], failure: str) -> None:
    """What was decided by a failure policy."""
    found = Counter(status for status, _, _ in answers)
    source = "store" if failure == "error" else failure
    assert {headers["x-source"] for _, headers, _ in answers} == {source}
    if failure == "local":
        # Each process lets 100 through.
        asked = Counter(headers["x-process"] for _, headers, _ in answers)
        allowed = sum(min(100, count) for count in asked.values())
        assert found == {200: allowed, 429: len(answers) - allowed}
    elif failure == "open":
        assert found == {200: len(answers)}
    else:
        assert found == {503: len(answers)}
        for _, headers, body in answers:
            assert 1 <= int(headers["retry-after"]) <= 5
            assert json.loads(body)["error"] == "rate_limiter_unavailable"
            assert not [name for name in headers if "ratelimit" in name]


def decided_by_redis(status: int, headers: dict[str, str], _body: bytes) -> bool:
    return status in (200, 429) and headers["x-source"] in ("store", "cache")
