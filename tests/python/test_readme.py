"""The Python blocks of README.md run as they stand; only the address of Redis is the test's."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from support.redis_server import RedisServer

README = Path(__file__).parents[2] / "README.md"
BLOCKS: list[str] = re.findall(
    r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)


def run(marker: str, redis: RedisServer, **given: Any) -> dict[str, Any]:
    """The names that the block with this text in it has made."""
    (block,) = [block for block in BLOCKS if marker in block]
    names = {"__name__": "readme", **given}
    exec(compile(block.replace("redis://localhost", redis.url), str(README), "exec"), names)
    return names


def test_every_block_has_its_test() -> None:
    markers = ["go on,", "RateLimit(", "AsyncLimiter(", "/login", "settle(", 'name="searches"']
    assert [[marker in block for marker in markers] for block in BLOCKS] == [
        [marker == own for marker in markers] for own in markers
    ]


def test_the_first_example(redis: RedisServer, capsys: pytest.CaptureFixture[str]) -> None:
    run("go on,", redis)
    assert capsys.readouterr().out == "go on, 19 left\n"


def test_flask(redis: RedisServer) -> None:
    client = run("RateLimit(", redis)["app"].test_client()
    answer = client.get("/search")
    assert answer.json == {"ok": True}
    assert answer.headers["X-RateLimit-Remaining"] == "9"
    both = '"readme/search";q=10;w=60, "app";q=20;w=4'
    assert answer.headers["RateLimit-Policy"] == both


def test_asyncio(redis: RedisServer) -> None:
    names = run("AsyncLimiter(", redis)

    async def main() -> None:
        await names["handle"]("ann")
        assert names["limiter"].store.stats().requests == 1

    asyncio.run(main())


def test_login(redis: RedisServer) -> None:
    names = run("/login", redis, password_is_right=lambda user, password: password == "right")
    client = names["app"].test_client()

    def codes(password: str, times: int, user: str = "ann") -> list[int]:
        form = {"user": user, "password": password}
        return [client.post("/login", data=form).status_code for _ in range(times)]

    assert codes("right", 30) == [200] * 30
    assert codes("wrong", 6) == [401] * 5 + [429]
    assert codes("right", 1) == [429]
    refused = client.post("/login", data={"user": "ann", "password": "right"})
    assert 0 < int(refused.headers["Retry-After"]) <= 900
    assert refused.json["error"] == "rate_limited"
    assert [codes("wrong", 5, user) for user in ("bob", "cat", "dan")] == [[401] * 5] * 3
    assert codes("right", 1, "eve") == [429]  # 20 failures of the address


def test_failure_policies() -> None:
    with RedisServer() as server:
        names = run('name="searches"', server)
        logins, searches = names["logins"], names["searches"]
        assert logins.check("k").source == searches.check("k").source == "store"
        server.kill()
        assert (logins.check("k").outcome, logins.check("k").source) == ("denied", "closed")
        admitted = [searches.check("k") for _ in range(100)]
        assert [bool(decision) for decision in admitted] == [True] * 25 + [False] * 75
        assert {decision.source for decision in admitted} == {"local"}


def test_settling_and_holding(redis: RedisServer, capsys: pytest.CaptureFixture[str]) -> None:
    names = run("settle(", redis)
    assert names["budget"].peek("ann").rules[1].remaining == 2_000_000 - 1_250
    assert names["exports"].peek("ann").remaining == 20
    assert capsys.readouterr().out == "go on\n"
