"""Runs one worker at a time, each with a timeout. Variants take turns, so that what the machine
does meanwhile meets all of them alike."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from suite.places import BENCH, PROGRAMS
from support.redis_server import RedisServer

TIMEOUT = 240  # s, of one worker

Result = Mapping[str, float]


def output(command: Sequence[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT, check=True)
    return done.stdout


def _result(command: Sequence[str]) -> dict[str, float]:
    result: dict[str, float] = json.loads(output(command).splitlines()[-1])
    print(".", end="", file=sys.stderr, flush=True)
    return result


def program(name: str, *args: str) -> str:
    """The output of a C++ bench."""
    return output([str(PROGRAMS / name), *args])


def node(script: str, *args: object) -> dict[str, float]:
    return _result(["node", str(BENCH / "node" / script), *map(str, args)])


def python(script: str, *args: object) -> dict[str, float]:
    return _result([sys.executable, str(BENCH / "python" / script), *map(str, args)])


def empty(redis: RedisServer) -> None:
    redis.cli("FLUSHALL", "SYNC")


def in_turns(
    rounds: int, variants: Mapping[str, Callable[[], Result]]
) -> dict[str, dict[str, list[float]]]:
    """Every variant once per round, the order turned by one each round: variant, then figure."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in variants}
    names = list(variants)
    for round_number in range(rounds):
        for i in range(len(names)):
            name = names[(i + round_number) % len(names)]
            for figure, value in variants[name]().items():
                found[name].setdefault(figure, []).append(value)
    return found


def median(values: Sequence[float]) -> float:
    return statistics.median(values)
