"""What the Python tests share: a real Redis, and stores whose clock the test sets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from saqiya import ManualClock, Store
from support.redis_server import RedisServer

START = 1_000_000.0  # seconds; far from both ends of the clock's range

StoreMaker = Callable[[], tuple[Store, ManualClock]]

_numbers = itertools.count()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer("--enable-debug-command", "local") as server:
        yield server


@pytest.fixture
def redis(redis_server: RedisServer) -> RedisServer:
    """The session's server, emptied."""
    redis_server.cli("FLUSHALL")
    return redis_server


def client_ids(redis: RedisServer) -> set[str]:
    """The ids of the server's clients, that of this question left out."""
    lines = redis.cli("CLIENT", "LIST").splitlines()
    clients = [dict(field.partition("=")[::2] for field in line.split()) for line in lines]
    return {client["id"] for client in clients if client["cmd"] != "client|list"}


def make_memory_store() -> tuple[Store, ManualClock]:
    clock = ManualClock(START)
    return Store(clock=clock), clock


@pytest.fixture(params=["memory", "redis"])
def make_store(request: pytest.FixtureRequest) -> StoreMaker:
    """Makes empty stores of one kind with manual clocks; a test over it runs on every kind."""
    if request.param == "memory":
        return make_memory_store
    return redis_store_maker(request.getfixturevalue("redis").url)


@pytest.fixture
def make_unix_store(redis: RedisServer) -> StoreMaker:
    return redis_store_maker(redis.unix_url)


def redis_store_maker(url: str) -> StoreMaker:
    def make() -> tuple[Store, ManualClock]:
        clock = ManualClock(START)
        prefix = f"t{next(_numbers)}:"
        return Store(url, clock=clock, testing=True, deadline=10, prefix=prefix), clock

    return make
