"""Real web servers for tests: started on a free port, gone at the end."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.redis_server import free_port

HERE = Path(__file__).parent
GUNICORN = [sys.executable, "-m", "gunicorn", "--chdir", str(HERE), "--log-level", "warning"]
# A gevent worker that has just started may miss the signal to end, whatever its app; the arbiter
# kills it after this many seconds.
GUNICORN += ["--graceful-timeout", "5"]
UWSGI = [
    *(str(Path(sys.executable).with_name("uwsgi")), "--master", "--die-on-term", "--need-app"),
    *("--pyhome", sys.prefix, "--chdir", str(HERE), "--disable-logging"),
]


def get(port: int, path: str = "/") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


@contextmanager
def serving(command: list[str], app: str, log: Path, **environment: str) -> Iterator[int]:
    """Runs a server of app ("module:name") until the block ends; yields its port.

    The app answers /health with 200 as soon as it is there.
    """
    port = free_port()
    if "gunicorn" in command:
        command = [*command, "--bind", f"127.0.0.1:{port}", app]
    elif command[0] == UWSGI[0]:
        command = [*command, "--http-socket", f"127.0.0.1:{port}", "--module", app]
    else:
        command = [*command, "--port", str(port)]
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=output, stderr=output
        )
        try:
            _wait_until_healthy(port, server, log)
            yield port
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
                raise


def _wait_until_healthy(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if get(port, "/health")[0] == 200:
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(log.read_text())
