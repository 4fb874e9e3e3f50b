"""A private redis-server for tests: real, on a free port and a Unix socket, gone at the end.

with RedisServer() as redis:
    ...  # redis.url, redis.unix_url, redis.cli("GET", "key")
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import deque

from support.certificates import Certificates

# The server under test; sentinels are the same program, and the client is beside it.
SERVER = os.environ.get("SAQIYA_TEST_REDIS_SERVER") or "redis-server"
CLI = SERVER.removesuffix("-server") + "-cli"


# As tests/redis/launch.cc has it: below the ports that the kernel gives to clients, and not one
# that another test was given. Whoever holds the abstract socket of its name has a port.
_PORTS = range(10_240, 32_768)
_reserved: deque[int] = deque()  # descriptors, which the end of the process closes


def free_port() -> int:
    """A TCP port of the loopback that nobody listens on and no other test was given."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(f"\0saqiya-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError as error:
            reservation.close()
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        _reserved.append(reservation.detach())
        if len(_reserved) > 100:  # more than one test has at a time
            os.close(_reserved.popleft())
        return port


class RedisServer:
    """Starts at once; `stop` (or leaving the `with` block) ends it and removes its folder.

    `args` are further server options: RedisServer("--requirepass", "x").
    `port` may be given to start again where an earlier server was.
    With `certificates` it also serves TLS, at `tls_url`; clients need no certificate.
    """

    def __init__(
        self,
        *args: str,
        port: int | None = None,
        password: str | None = None,
        certificates: Certificates | None = None,
    ) -> None:
        self.args = args
        self.certificates = certificates
        self.tls_port = free_port() if certificates is not None else 0
        self.password = password
        self.folder = tempfile.mkdtemp(prefix="saqiya-redis-")
        self.socket_path = os.path.join(self.folder, "redis.sock")
        self.process: subprocess.Popen[bytes] | None = None
        self.port = port if port is not None else free_port()
        try:
            self.start()
        except RuntimeError:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def tls_url(self) -> str:
        assert self.certificates is not None
        return f"rediss://127.0.0.1:{self.tls_port}?ca={self.certificates.ca}"

    @property
    def unix_url(self) -> str:
        return f"unix://{self.socket_path}"

    def start(self) -> None:
        """Starts the process (again, after `kill`) and waits until it answers."""
        command = [SERVER, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--unixsocket", self.socket_path, "--save", "", "--appendonly", "no"]
        command += ["--dir", self.folder, "--daemonize", "no", "--repl-diskless-sync-delay", "0"]
        if self.password is not None:
            command += ["--requirepass", self.password]
        if self.certificates is not None:
            command += ["--tls-port", str(self.tls_port), "--tls-auth-clients", "optional"]
            command += ["--tls-ca-cert-file", self.certificates.ca]
            command += ["--tls-cert-file", self.certificates.certificate]
            command += ["--tls-key-file", self.certificates.key]
        command += self.args
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        give_up = time.monotonic() + 20
        while time.monotonic() < give_up:
            if self.process.poll() is not None:
                break
            if self._answers():
                return
            time.sleep(0.01)
        self._end()
        with open(os.path.join(self.folder, "log"), errors="replace") as log_text:
            raise RuntimeError("redis-server did not start:\n" + log_text.read()[-2000:])

    def kill(self) -> None:
        """Ends the process at once; the folder and the port stay for `start`."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        """Freezes the process: connections stay open and nothing answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def cli(self, *command: str, database: int = 0) -> str:
        """One command by redis-cli; its raw output without the last newline."""
        call = [CLI, "-p", str(self.port), "-n", str(database)]
        if self.password is not None:
            call += ["--no-auth-warning", "-a", self.password]
        done = subprocess.run(call + list(command), capture_output=True, text=True, timeout=30)
        if done.returncode != 0:
            raise RuntimeError(done.stderr or done.stdout)
        return done.stdout.rstrip("\n")

    def keys(self) -> list[str]:
        return self.cli("KEYS", "*").split()

    def __enter__(self) -> RedisServer:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                answer = connection.recv(64)
        except OSError:
            return False
        return answer.startswith((b"+PONG", b"-NOAUTH"))

    def _end(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None
