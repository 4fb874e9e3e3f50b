"""A redis-server, and the script as the build embeds it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from script_client import Connection, Script

from support.redis_server import RedisServer

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def script_text(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    header = tmp_path_factory.mktemp("script") / "script.lua.h"
    command = ["cmake", f"-DINPUT={ROOT}/core/redis/lua/script.lua", f"-DOUTPUT={header}"]
    command += ["-DNAME=script.lua", "-P", str(ROOT / "packaging/cmake/embed_lua_script.cmake")]
    subprocess.run(command, check=True, timeout=60)
    found = re.search(rb'kScript = R"lua\((.*)\)lua";', header.read_bytes(), re.DOTALL)
    assert found
    return found[1]


@pytest.fixture(scope="session")
def server() -> Iterator[RedisServer]:
    with RedisServer() as redis:
        yield redis


@pytest.fixture
def connection(server: RedisServer) -> Iterator[Connection]:
    """To the session's server, emptied."""
    opened = Connection(server.socket_path)
    opened("FLUSHALL")
    yield opened
    opened.close()


@pytest.fixture
def script(connection: Connection, script_text: bytes) -> Script:
    return Script(connection, script_text)
