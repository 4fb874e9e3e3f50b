"""The module as part of a process: exit, symbols, neighbours, subinterpreters."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from saqiya import _saqiya
from support.redis_server import RedisServer

USE = """
import asyncio, os, sys, threading, signal
from saqiya import AsyncLimiter, Limiter, Store
local = Limiter("5/s")
remote = Limiter("1000/s", store=Store({url!r}, deadline=10))
waiting = AsyncLimiter("1000/s", store=remote.store)
async def main():
    await asyncio.gather(*(waiting.check("k") for _ in range(50)))
asyncio.run(main())
assert local.check("k") and remote.check("k")
"""

ENDINGS = {
    "return": ("", 0),
    "sys.exit": ("sys.exit(7)", 7),
    "exception": ("raise RuntimeError('the end')", 1),
    "os._exit": ("os._exit(3)", 3),
    "signal": ("os.kill(os.getpid(), signal.SIGTERM)", -15),
    "threads": (
        "def hammer():\n"
        "    while True: local.check('k'); remote.check('k')\n"
        "for _ in range(8): threading.Thread(target=hammer, daemon=True).start()\n"
        "import time; time.sleep(0.1)",
        0,
    ),
    "open loop": (
        "loop = asyncio.new_event_loop()\n"
        "task = loop.create_task(waiting.check('k'))\n"
        "loop.run_until_complete(asyncio.sleep(0))\n"
        "task.cancel()\n"
        "try: loop.run_until_complete(task)\n"
        "except asyncio.CancelledError: pass\n"
        "import warnings; warnings.simplefilter('ignore', ResourceWarning)",
        0,
    ),
    "kept in a cycle": ("class C: pass\nc = C(); c.c = c; c.all = [local, remote, waiting]", 0),
    "atexit": ("import atexit\natexit.register(lambda: (local.check('k'), remote.check('k')))", 0),
}


def run(program: str, **options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "dev", "-c", program]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, **options}
    )


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_process_ends_as_it_should(ending: str, redis: RedisServer) -> None:
    """C136, C140."""
    last_words, code = ENDINGS[ending]
    for _ in range(3):
        done = run(USE.format(url=redis.url) + last_words)
        assert done.returncode == code, done.stderr
        if ending != "exception":
            assert done.stderr == ""


def test_only_the_init_function_is_exported() -> None:
    """C147."""
    assert _saqiya.__file__ is not None
    table = subprocess.run(
        ["nm", "-D", "--defined-only", _saqiya.__file__],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    names = [line.split()[-1] for line in table.stdout.splitlines()]
    assert names == ["PyInit__saqiya"]


@pytest.mark.parametrize("order", ["hiredis, saqiya", "saqiya, hiredis"])
def test_another_hiredis_in_the_process(order: str, redis: RedisServer) -> None:
    """C147: the hiredis of other packages and ours do not meet."""
    program = f"import {order}\n" + USE.format(url=redis.url)
    program += """
import hiredis
reader = hiredis.Reader()
reader.feed(b"*2\\r\\n:1\\r\\n$1\\r\\na\\r\\n")
assert reader.gets() == [1, b"a"]
for _ in range(100):
    assert remote.check("k2").outcome != "unavailable"
"""
    done = run(program)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_environment_and_no_output(redis: RedisServer) -> None:
    done = run(USE.format(url=redis.url), REDIS_URL="redis://nowhere")
    assert (done.stdout, done.stderr) == ("", "")
    assert _saqiya.__file__ is not None
    with open(_saqiya.__file__, "rb") as module:
        assert re.search(rb"\bSAQIYA_[A-Z_]+=", module.read()) is None


def test_no_threads_are_started(redis: RedisServer) -> None:
    done = run(USE.format(url=redis.url) + "print(len(os.listdir('/proc/self/task')))")
    assert done.stdout == "1\n"


def test_a_subinterpreter_of_its_own() -> None:
    """C137: it works from Python 3.12 on; before, the import fails at once."""
    program = """
import sys
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
works = sys.version_info >= (3, 12)
if not hasattr(interpreters, 'RunFailedError'): interpreters.RunFailedError = ()
code = '''
import sys
if sys.version_info < (3, 12):
    try:
        import saqiya
    except ImportError as error:
        assert "subinterpreters" in str(error)
        raise SystemExit
    raise AssertionError
import saqiya
assert saqiya.Limiter("2/s").check("k").remaining == 1
try:
    saqiya.Limiter("bad")
except saqiya.SaqiyaError as error:
    assert error.code == "bad_policy"
else:
    raise AssertionError
try:
    saqiya.Store("what://")
except saqiya.SaqiyaError as error:
    assert error.code == "bad_url"
'''
import saqiya
for _ in range(3):
    other = interpreters.create()
    try:
        failure = interpreters.run_string(other, code)
        assert works and failure is None, failure
    except interpreters.RunFailedError as error:
        assert not works and "SystemExit" in str(error), error
    interpreters.destroy(other)
assert saqiya.Limiter("2/s").check("k").remaining == 1
"""
    done = run(program)
    assert (done.returncode, done.stderr) == (0, "")
