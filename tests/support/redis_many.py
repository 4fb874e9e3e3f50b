"""Several servers that belong together: a master with its replicas and sentinels, a cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack

from support.redis_server import CLI, SERVER, RedisServer, free_port


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < give_up, f"not so: {what}"
        time.sleep(0.02)


def _cli(port: int, *words: str) -> list[str]:
    command = [CLI, "-p", str(port), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    return done.stdout.splitlines()


class Sentinels:
    """`servers` (the first one is the master) and the sentinels that watch them. The first sentinel
    is quick to start a failover, the others are slow: they would stand in each other's way.
    """

    MASTER = "front"

    def __init__(self, replicas: int = 1, sentinels: int = 3) -> None:
        self._stack = ExitStack()
        self.servers = [self._stack.enter_context(RedisServer()) for _ in range(1 + replicas)]
        for server in self.servers[1:]:
            server.cli("REPLICAOF", "127.0.0.1", str(self.servers[0].port))
        self.ports = [free_port() for _ in range(sentinels)]
        self.processes = [self._start(i) for i in range(sentinels)]
        wait_until("the sentinels know all", lambda: all(map(self._is_ready, self.ports)))

    @property
    def url(self) -> str:
        places = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"redis+sentinel://{places}/{self.MASTER}"

    @property
    def master(self) -> RedisServer:
        """As the first living sentinel sees it."""
        for port, process in zip(self.ports, self.processes, strict=True):
            if process.poll() is None:
                at = _cli(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.MASTER)
                return next(server for server in self.servers if str(server.port) in at)
        raise AssertionError("no sentinel lives")

    def kill_sentinel(self, index: int) -> None:
        self.processes[index].kill()
        self.processes[index].wait()

    def wait_for_failover(self, old: RedisServer) -> RedisServer:
        def is_over() -> bool:
            new = self.master
            return new is not old and new.cli("ROLE").startswith("master")

        wait_until("there is a new master", is_over)
        return self.master

    def stop(self) -> None:
        for index in range(len(self.processes)):
            self.kill_sentinel(index)
        self._stack.close()

    def __enter__(self) -> Sentinels:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        folder = tempfile.mkdtemp(prefix="saqiya-sentinel-")
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        name, port = self.MASTER, self.ports[index]
        quorum = 1 if index == 0 else len(self.ports) // 2 + 1
        down_after = 500 if index == 0 else 1500
        with open(os.path.join(folder, "sentinel.conf"), "w") as file:
            file.write(
                f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
                f"sentinel monitor {name} 127.0.0.1 {self.servers[0].port} {quorum}\n"
                f"sentinel down-after-milliseconds {name} {down_after}\n"
                f"sentinel failover-timeout {name} 2000\n"
            )
        command = [SERVER, os.path.join(folder, "sentinel.conf"), "--sentinel"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Milliseconds. What is known of a replica must not be older than five pings or three infos
        # when it is promoted; that is noticed after a second; and after four publish periods the
        # other sentinels would undo it.
        periods = ["INFO-PERIOD", "500", "PUBLISH-PERIOD", "500", "PING-PERIOD", "400"]
        periods += ["ASK-PERIOD", "100"]
        wait_until("it answers", lambda: _cli(port, "SENTINEL", "DEBUG", *periods)[:1] == ["OK"])
        return process

    def _is_ready(self, port: int) -> bool:
        known = _cli(port, "SENTINEL", "MASTER", self.MASTER)
        facts = dict(zip(known[::2], known[1::2], strict=True))
        return (
            facts.get("num-slaves") == str(len(self.servers) - 1)
            and facts.get("num-other-sentinels") == str(len(self.ports) - 1)
            and "ok" in _cli(port, "SENTINEL", "REPLICAS", self.MASTER)
        )


class Cluster:
    """`nodes`: masters that share the slots, three or more, then the replicas of each."""

    def __init__(self, masters: int = 3, replicas: int = 1, node_timeout_ms: int = 1000) -> None:
        self._stack = ExitStack()
        options = ["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"]
        options += ["--cluster-node-timeout", str(node_timeout_ms)]
        options += ["--cluster-replica-validity-factor", "0"]
        self.nodes = [
            self._stack.enter_context(RedisServer(*options, "--cluster-port", str(free_port())))
            for _ in range((1 + replicas) * masters)
        ]
        places = [f"127.0.0.1:{node.port}" for node in self.nodes]
        command = [CLI, "--cluster", "create", *places, "--cluster-yes"]
        command += ["--cluster-replicas", str(replicas)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        self.wait_until_ok()
        wait_until("replicas follow", lambda: all(self._follows(n) for n in self.nodes[masters:]))

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def wait_until_ok(self) -> None:
        """Until all living nodes say that all slots are served, none by a dead node."""

        def is_ok(node: RedisServer) -> bool:
            lines = node.cli("CLUSTER", "NODES").splitlines()
            dead = [str(other.port) for other in self.nodes if other.process is None]
            owners = [line.split()[1] for line in lines if len(line.split()) > 8]
            served = all(owner.split("@")[0].split(":")[1] not in dead for owner in owners)
            info = node.cli("CLUSTER", "INFO")
            return "cluster_state:ok" in info and "cluster_slots_ok:16384" in info and served

        wait_until(
            "the cluster is in order",
            lambda: all(is_ok(node) for node in self.nodes if node.process is not None),
        )

    def master_of(self, key: str) -> RedisServer:
        living = next(node for node in self.nodes if node.process is not None)
        slot = int(living.cli("CLUSTER", "KEYSLOT", key))
        for line in living.cli("CLUSTER", "NODES").splitlines():
            words = line.split()
            for part in words[8:]:
                first, _, last = part.partition("-")
                if first.isdigit() and int(first) <= slot <= int(last or first):
                    port = int(words[1].split("@")[0].split(":")[1])
                    return next(node for node in self.nodes if node.port == port)
        raise AssertionError("nobody serves the slot")

    @staticmethod
    def _follows(node: RedisServer) -> bool:
        return "master_link_status:up" in node.cli("INFO", "replication")

    def stop(self) -> None:
        self._stack.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()
