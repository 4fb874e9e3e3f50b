"""What a check costs on the wire and on the server, beside the classic script at the same depth."""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from suite.places import BENCH, PROGRAMS
from suite.tables import NO_GOAL, Goal, Table, at_least, at_most
from suite.workers import TIMEOUT, Result, empty, in_turns, output
from support.certificates import Certificates
from support.redis_many import Cluster, wait_until
from support.redis_server import RedisServer, free_port

CHECKS = 300_000
CLASSIC = Path(BENCH / "lua" / "classic.lua").read_text()

# policy of ours, and capacity and tokens per second of the classic script
LOADS = {
    "all allowed": ("5/s burst 1000000", "1000000000", "5"),
    "most refused": ("5/s burst 20", "20", "0"),
    "a rate with a remainder, all allowed": ("3/s burst 1000000", "1000000000", "3"),
    "a rate with a remainder, most refused": ("3/s burst 20", "20", "0"),
}


def server_cpu(redis: RedisServer) -> float:
    """Microseconds of CPU that the server has taken."""
    fields = dict(line.split(":") for line in redis.cli("INFO", "cpu").split() if ":" in line)
    return 1e6 * (float(fields["used_cpu_user"]) + float(fields["used_cpu_sys"]))


def queue(url: str, policy: str, in_flight: int, *servers: RedisServer) -> dict[str, float]:
    """One queue of ours in a closed loop over a store that is made of these servers."""
    for server in servers:
        empty(server)
    command = [str(PROGRAMS / "redis_queue"), url, policy, str(in_flight), str(CHECKS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("redis_queue did not get ready")
        before = sum(map(server_cpu, servers))
        rest, _ = process.communicate("\n", timeout=TIMEOUT)
        after = sum(map(server_cpu, servers))
    found: dict[str, float] = json.loads(rest)
    return {
        "rate": 1e6 / found["wall"],
        "server": (after - before) / CHECKS,
        "client": found["client_cpu"] / 1000,
    }


def classic(redis: RedisServer, capacity: str, per_second: str, in_flight: int) -> Result:
    """The classic script, pipelined by redis-benchmark."""
    empty(redis)
    sha = redis.cli("SCRIPT", "LOAD", CLASSIC)
    # The clock stands still: the bucket of a user gets what it had at first.
    call = ["EVALSHA", sha, "1", "user__rand_int__", capacity, per_second, str(time.time()), "1"]
    command = ["redis-benchmark", "-p", str(redis.port), "-c", "1", "-P", str(in_flight)]
    command += ["-r", "1000", "--csv"]
    output([*command, "-n", "40000", *call])
    before = server_cpu(redis)
    rows = list(csv.reader(output([*command, "-n", str(CHECKS), *call]).splitlines()))
    after = server_cpu(redis)
    return {"rate": float(rows[1][1]) / 1000, "server": (after - before) / CHECKS}


def run(rounds: int) -> Table:
    table = Table(
        "One queue over Redis, C",
        "A closed loop over 1,000 users by TCP, one thread. Beside it the classic script (HMGET, "
        "HMSET, EXPIRE), pipelined by redis-benchmark at the same depth. Server CPU: of the whole "
        "process, by INFO. Refusals are not remembered by the client here.",
    )
    with RedisServer() as redis:
        variants: dict[str, Callable[[], Result]] = {}
        for name, (policy, capacity, per_second) in LOADS.items():
            for depth in (64, 256):
                variants[f"ours, {name}, {depth}"] = _ours(redis, policy, depth)
                variants[f"classic, {name}, {depth}"] = _classic(redis, capacity, per_second, depth)
        found = in_turns(rounds, variants)
    for name in list(LOADS)[:2]:
        for depth in (64, 256):
            ours, peer = found[f"ours, {name}, {depth}"], found[f"classic, {name}, {depth}"]
            goal = at_least(2) if depth == 256 else NO_GOAL
            what = f"{depth} in flight, {name}"
            table.compare(what, ours["rate"], peer["rate"], "k/s", "classic script", goal)
    goals = dict(zip(LOADS, map(at_most, (0.5, 0.2, 0.6, 0.3))))
    for name in LOADS:
        _server_row(table, name, found, goals[name])
    return table


def _ours(redis: RedisServer, policy: str, depth: int) -> Callable[[], Result]:
    return lambda: queue(redis.url, policy, depth, redis)


def _classic(
    redis: RedisServer, capacity: str, per_second: str, depth: int
) -> Callable[[], Result]:
    return lambda: classic(redis, capacity, per_second, depth)


def _server_row(
    table: Table, name: str, found: dict[str, dict[str, list[float]]], goal: Goal
) -> None:
    ours, peer = found[f"ours, {name}, 64"], found[f"classic, {name}, 64"]
    what = f"server CPU of a check, 64 in flight, {name}"
    table.compare(what, ours["server"], peer["server"], "us", "classic script", goal)


def _with_tls(folder: str) -> RedisServer:
    return RedisServer(certificates=Certificates(folder))


def tls(rounds: int) -> Table:
    table = Table(
        "TLS over Redis, C",
        "The same loop, all allowed, over TLS 1.3 with a verified certificate, beside plain TCP.",
    )
    policy = LOADS["all allowed"][0]
    with tempfile.TemporaryDirectory() as folder, _with_tls(folder) as redis:
        for depth in (1, 64, 256):
            found = in_turns(
                rounds,
                {
                    "plain": lambda depth=depth: queue(redis.url, policy, depth, redis),
                    "tls": lambda depth=depth: queue(redis.tls_url, policy, depth, redis),
                },
            )
            ours, peer = found["tls"]["rate"], found["plain"]["rate"]
            table.compare(f"{depth} in flight", ours, peer, "k/s", "plain", at_least(0.7))
    return table


def cluster(rounds: int) -> Table:
    """Client and nodes share two cores: what a node costs can be seen, not how many can be used."""
    table = Table(
        "Cluster over Redis, C",
        "The same loop, all allowed, 256 in flight. On a cluster the checks of one slot travel "
        "together, so 1,000 users make nearly 1,000 calls of what is one script call to a single "
        "server. Client and all nodes share the two cores.",
    )
    policy = LOADS["all allowed"][0]
    alone = RedisServer("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    with RedisServer() as redis, alone as one, Cluster(replicas=0) as three:
        one.cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        wait_until("it serves", lambda: "cluster_state:ok" in one.cli("CLUSTER", "INFO"))
        one_url = f"redis+cluster://127.0.0.1:{one.port}"
        found = in_turns(
            rounds,
            {
                "single": lambda: queue(redis.url, policy, 256, redis),
                "one": lambda: queue(one_url, policy, 256, one),
                "three": lambda: queue(three.url, policy, 256, *three.nodes),
            },
        )
    single = found["single"]
    for name, what in (("one", "1 master"), ("three", "3 masters")):
        many = found[name]
        table.compare(what, many["rate"], single["rate"], "k/s", "single server", NO_GOAL)
        cpu = f"{what}: CPU of the servers, per check"
        table.compare(cpu, many["server"], single["server"], "us", "single server", NO_GOAL)
        cpu = f"{what}: CPU of the client, per check"
        table.compare(cpu, many["client"], single["client"], "us", "single server", NO_GOAL)
    return table
