"""The script touches no key but those that a call names (C69)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from script_client import Arg, Connection, Script
from test_script_random import SIZES, Traffic

from support.redis_server import RedisServer


@pytest.fixture
def caller(server: RedisServer, connection: Connection) -> Iterator[Connection]:
    """Logged in as a user who may do everything, but with no key yet."""
    connection("ACL", "SETUSER", "caller", "on", ">secret", "+@all")
    connection("ACL", "LOG", "RESET")
    opened = Connection(server.socket_path)
    opened("AUTH", "caller", "secret")
    yield opened
    opened.close()
    connection("ACL", "DELUSER", "caller")


def test_touches_the_keys_of_the_call_only(
    connection: Connection, caller: Connection, script_text: bytes
) -> None:
    """The server itself watches: before each call it is told to permit exactly that call's keys."""
    script = Script(caller, script_text)
    traffic = Traffic(seed=0, size=SIZES["usual"])
    seen = set()
    for _ in range(1500):
        traffic.move_clock()
        keys: list[Arg] = []
        args: list[Arg] = []
        expected: list[object] = []
        for _ in range(traffic.random.choice((1, 2))):
            group_keys, group_args, answers = traffic.group()
            keys += group_keys
            args += group_args
            expected += answers
            seen.add(group_args[1])
        connection("ACL", "SETUSER", "caller", "resetkeys", *{f"~{key}" for key in keys})
        assert script(traffic.now, keys, *args) == expected
    assert seen >= set("cpfxgaCPF")
    # Nor did it try another one and go on when that was refused.
    assert connection("ACL", "LOG") == []
