"""Redis over TLS: forks and real prefork servers, event loops, certificates that nobody signed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvloop
from conftest import client_ids
from test_fork import admit, run_in_child
from test_prefork import SERVERS, wait_for_two_workers
from web_server import get, serving

from saqiya import AsyncLimiter, Limiter, Store
from support.certificates import Certificates
from support.redis_server import RedisServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    certificates = Certificates(tmp_path_factory.mktemp("certificates"))
    with RedisServer(certificates=certificates) as server:
        yield server


@pytest.fixture
def redis(server: RedisServer) -> RedisServer:
    server.cli("FLUSHALL")
    return server


def test_forks_leave_the_parents_session_alone(redis: RedisServer) -> None:
    """C130: no child ends the session that it has inherited, nor writes to it."""
    before = client_ids(redis)  # of earlier tests
    limiter = Limiter("1/h burst 1000", store=Store(redis.tls_url, deadline=20))
    limiter.check("k")
    mine = client_ids(redis) - before
    assert len(mine) == 1
    for _ in range(5):
        children = [run_in_child(lambda: admit(limiter, "k", 10)) for _ in range(3)]
        assert admit(limiter, "k", 10) == 10
        assert [child() for child in children] == [10] * 3
        assert mine <= client_ids(redis)
    assert limiter.store.stats().connects == 1
    assert limiter.peek("k").remaining == 1_000 - 1 - 5 * 40


@pytest.mark.parametrize(
    "name", ["gunicorn sync", "gunicorn gthread", "gunicorn gevent", "gunicorn uvicorn", "uwsgi"]
)
def test_prefork_servers(name: str, redis: RedisServer, tmp_path: Path) -> None:
    command, app = SERVERS[name]
    log = tmp_path / "log"
    before = client_ids(redis)
    environment = {"REDIS_URL": redis.tls_url}
    with serving(command, app, log, **environment) as port, ThreadPoolExecutor(16) as pool:
        wait_for_two_workers(port, pool)
        loaded = client_ids(redis) - before
        count = Counter(status for status, _, _ in pool.map(lambda _: get(port), range(300)))
        assert count == {200: 100, 429: 200}, log.read_text()
        assert len(loaded) == 1
        assert loaded < client_ids(redis)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_event_loops(redis: RedisServer, new_loop: Any) -> None:
    limiter = AsyncLimiter("1/h burst 500", store=Store(redis.tls_url, deadline=20))

    async def main() -> int:
        decisions = await asyncio.gather(*(limiter.check("k") for _ in range(1_000)))
        return sum(map(bool, decisions))

    loop = new_loop()
    assert loop.run_until_complete(main()) == 500
    loop.close()


@pytest.mark.parametrize("wrong", ["authority", "name", "system"])
def test_a_server_that_is_not_trusted(
    redis: RedisServer, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is asked of it; the log says so; the limiter decides by itself."""
    caplog.set_level(logging.INFO, "saqiya")
    assert redis.certificates is not None
    plain = f"rediss://127.0.0.1:{redis.tls_port}"
    url = {
        "authority": f"{plain}?ca={redis.certificates.other_ca}",
        "name": f"{redis.tls_url}&server_name=elsewhere.example",
        "system": plain,
    }[wrong]
    limiter = Limiter("1/h burst 3", store=Store(url, deadline=20))
    decision = limiter.check("k")
    assert (decision.outcome, decision.source, decision.reason) == ("allowed", "local", "connect")
    assert redis.keys() == []
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    unverified = Limiter("1/h burst 3", store=Store(f"{plain}?verify=no", deadline=20))
    assert unverified.check("k").source == "store"
