"""The demonstration's second half: real apps, real bursts over HTTP, told as tables.

Both apps limit every client to 5 requests per second with bursts of 20. First each keeps its own
count in its process, then both share one count on a Redis server that is started here.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BURST = 30
CAPACITY = 20
RATE = 5
SHOWN = ["retry-after", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]
SHOWN += ["ratelimit", "ratelimit-policy"]


class Answer(NamedTuple):
    app: str
    status: int
    headers: dict[str, str]
    body: str


class App(NamedTuple):
    name: str
    port: int


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        time.sleep(0.05)
    return False


@contextlib.contextmanager
def running(
    what: str,
    port: int,
    command: list[str],
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[None]:
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=cwd)
        try:
            if not listens(port, process):
                log.seek(0)
                sys.exit(f"{what} did not start:\n{log.read().decode(errors='replace')}")
            yield
        finally:
            process.terminate()
            process.wait(10)


@contextlib.contextmanager
def apps(examples: Path, node_folder: Path, redis_url: str | None) -> Iterator[list[App]]:
    environment = dict(os.environ)
    environment.pop("REDIS_URL", None)
    if redis_url:
        environment["REDIS_URL"] = redis_url
    flask, express = App("Flask", free_port()), App("Express", free_port())
    flask_command = [sys.executable, "-m", "flask", "--app", str(examples / "flask_app.py")]
    flask_command += ["run", "--port", str(flask.port)]
    express_environment = environment | {"PORT": str(express.port)}
    with (
        running("the Flask app", flask.port, flask_command, env=environment),
        running(
            "the Express app",
            express.port,
            ["node", "express_app.mjs"],
            env=express_environment,
            cwd=node_folder,
        ),
    ):
        yield [flask, express]


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    port = free_port()
    folder = tempfile.mkdtemp()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    try:
        with running("redis-server", port, [*command, "--dir", folder]):
            yield f"redis://127.0.0.1:{port}"
    finally:
        shutil.rmtree(folder)


class Burst(NamedTuple):
    answers: list[Answer]
    seconds: float


def burst(targets: list[App], count: int) -> Burst:
    """count requests, as fast as they go, to each target in turn."""
    begin = time.monotonic()
    connections = {app: http.client.HTTPConnection("127.0.0.1", app.port) for app in targets}
    answers = []
    for i in range(count):
        app = targets[i % len(targets)]
        connections[app].request("GET", "/")
        response = connections[app].getresponse()
        body = response.read().decode().strip()
        headers = {name.lower(): value for name, value in response.getheaders()}
        answers.append(Answer(app.name, response.status, headers, body))
    for connection in connections.values():
        connection.close()
    return Burst(answers, time.monotonic() - begin)


def told(answer: Answer, number: int) -> str:
    values = [answer.headers.get(name, "-") for name in SHOWN]
    widths = [11, 7, 11, 7, 20, 22]
    cells = "".join(f"{value:<{width}}" for value, width in zip(values, widths, strict=True))
    return f"  {number:>3}  {answer.app:<8} {answer.status}     {cells}"


def show(title: str, answers: list[Answer]) -> None:
    print(f"\n{title}\n")
    rate_limit = "X-RateLimit-             RateLimit           RateLimit-Policy"
    print(f"    #  app      status  Retry-     {rate_limit}")
    print("                        After      Limit  Remaining  Reset")
    last_allowed = max((i for i, a in enumerate(answers) if a.status == 200), default=0)
    shown = {0, 1, last_allowed - 1, last_allowed, last_allowed + 1, len(answers) - 1}
    gap = False
    for i, answer in enumerate(answers):
        if i in shown:
            print(told(answer, i + 1))
            gap = False
        elif not gap:
            print("  ...")
            gap = True
    refused = next((a for a in answers if a.status == 429), None)
    if refused:
        print(f"\n  body of a 429: {refused.body}")


def summary(answers: list[Answer]) -> tuple[int, int]:
    statuses = [a.status for a in answers]
    return statuses.count(200), statuses.count(429)


class Report:
    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, bool]] = []

    def add(self, what: str, sent: Burst, expected: tuple[int, int]) -> None:
        """On a slow machine tokens come back while the requests are still being made."""
        passed, refused = summary(sent.answers)
        well_formed = all(
            json.loads(a.body)["error"] == "rate_limited" and int(a.headers["retry-after"]) >= 1
            for a in sent.answers
            if a.status == 429
        )
        total = len(sent.answers)
        most = min(total, expected[0] + math.ceil(sent.seconds * RATE))
        right = expected[0] <= passed <= most and passed + refused == total and well_formed
        got = f"{passed} x 200, {refused} x 429"
        wanted = f"{expected[0]} x 200, {expected[1]} x 429"
        if passed != expected[0] and right:
            got += f" in {sent.seconds:.1f} s"
        self.rows.append((what, wanted, got, right))

    def close(self) -> bool:
        print("\nSummary\n")
        print(f"  {'what':<58} {'expected':<24} {'got':<24}")
        for what, wanted, got, right in self.rows:
            print(f"  {what:<58} {wanted:<24} {got:<24} {'ok' if right else 'WRONG'}")
        return all(row[3] for row in self.rows)


def demonstrate(examples: Path, node_folder: Path) -> bool:
    report = Report()
    rest = BURST - CAPACITY
    first = (CAPACITY, rest)
    then = (RATE, rest - RATE)
    with apps(examples, node_folder, None) as both:
        for app in both:
            answers = burst([app], BURST)
            time.sleep(1)
            later = burst([app], rest)
            show(f"{app.name}, in the process: a burst of {BURST} requests", answers.answers)
            show(f"{app.name}, one second later: {rest} more", later.answers)
            report.add(f"{app.name}, in process: burst of {BURST}", answers, first)
            report.add(f"{app.name}, one second later: {rest} more", later, then)
    with redis_server() as url, apps(examples, node_folder, url) as both:
        answers = burst(both, BURST)
        time.sleep(1)
        later = burst(both, rest)
        show(f"Flask and Express in turn, one count on Redis: {BURST} requests", answers.answers)
        report.add(f"Flask and Express on one Redis: burst of {BURST} over both", answers, first)
        report.add(f"Flask and Express on one Redis, one second later: {rest}", later, then)
    return report.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=Path, required=True, help="folder of flask_app.py")
    parser.add_argument("--node-folder", type=Path, required=True, help="folder of express_app.mjs")
    arguments = parser.parse_args()
    sys.exit(0 if demonstrate(arguments.examples, arguments.node_folder) else 1)


if __name__ == "__main__":
    main()
