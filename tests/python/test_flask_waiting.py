"""The Flask extension under rules that take time: delays of queues, slots that are held."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest
from conftest import StoreMaker, make_memory_store
from flask import Flask, Response, stream_with_context
from test_flask import codes, make_app
from werkzeug.serving import make_server

from saqiya import Limiter, Store
from saqiya.flask import RateLimit

ONE = "concurrency: 1 ttl 30s"


@contextmanager
def serving(app: Flask) -> Iterator[int]:
    """A threaded server on a free port."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(port: int, path: str = "/") -> HTTPResponse:
    """An answer whose body has not been read yet."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    return connection.getresponse()


def status(port: int, path: str = "/") -> int:
    with closing(ask(port, path)) as answer:
        answer.read()
        return answer.status


def until_free(limiter: Limiter, key: str = "k") -> None:
    deadline = time.monotonic() + 30
    while limiter.peek(key).remaining < 1:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_queue_delays_the_view() -> None:
    started: list[float] = []
    app = Flask(__name__)
    limiter = RateLimit(app)

    @app.get("/")
    @limiter.limit("leaky-bucket: 20/s queue 2", key=lambda: "all")
    def view() -> str:
        started.append(time.monotonic())
        return "ok"

    client = app.test_client()
    begin = time.monotonic()
    assert codes(client, "/", 3) == [200] * 3
    assert started[1] - begin >= 0.05
    assert started[2] - begin >= 0.1


def test_the_delay_of_several_policies_is_the_longest() -> None:
    app = make_app()
    pairs: Any = [("leaky-bucket: 20/s queue 9", lambda: "a"), ("9/s", lambda: "b")]
    RateLimit(app, pairs)
    begin = time.monotonic()
    assert codes(app.test_client(), "/", 3) == [200] * 3
    assert time.monotonic() - begin >= 0.1


def test_a_delay_that_ends_early_gives_back(monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = make_memory_store()
    limiter = Limiter(f"leaky-bucket: 1/h queue 3; {ONE}", store=store)
    app = make_app(TESTING=True)
    RateLimit(app, limiter, key=lambda: "k")
    client = app.test_client()
    assert codes(client, "/", 1) == [200]

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    before = limiter.peek("k").rules
    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.get("/")
    after = limiter.peek("k").rules
    assert [rule.remaining for rule in after] == [rule.remaining for rule in before]
    assert after[0].delay == before[0].delay


def slots(store: Store) -> Limiter:
    return Limiter(ONE, store=store, name="slots")


def test_requests_one_after_another_pass(make_store: StoreMaker) -> None:
    store, _ = make_store()
    app = Flask(__name__)
    limiter = RateLimit(app, store=store, key=lambda: "k")
    limit = limiter.limit(ONE, name="slots")
    app.add_url_rule("/", "index", limit(lambda: "ok"))
    app.add_url_rule("/broken", "broken", limit(lambda: 1 / 0))
    app.add_url_rule("/stream", "stream", limit(lambda: Response(iter(["a", "b"]))))
    client = app.test_client()
    assert codes(client, "/", 3) == [200] * 3
    assert codes(client, "/broken", 3) == [500] * 3
    assert codes(client, "/stream", 3) == [200] * 3
    assert [client.get("/").status_code for _ in range(3)] == [200] * 3
    app.testing = True  # what a view raises comes out of the app
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            client.get("/broken")
    assert slots(store).peek("k").remaining == 1


def test_a_parallel_request_is_refused(make_store: StoreMaker) -> None:
    store, _ = make_store()
    entered, leave = threading.Event(), threading.Event()
    app = make_app()
    RateLimit(app, ONE, store=store, name="slots", key=lambda: "k")

    @app.get("/slow")
    def slow() -> str:
        entered.set()
        assert leave.wait(30)
        return "ok"

    answers: list[int] = []
    with serving(app) as port:
        other = threading.Thread(target=lambda: answers.append(status(port, "/slow")))
        other.start()
        assert entered.wait(30)
        assert status(port) == 429
        assert status(port) == 429  # a refusal frees nothing
        leave.set()
        other.join(30)
        until_free(slots(store))
        assert status(port) == 200
    assert answers == [200]


@pytest.mark.parametrize("in_context", [False, True])
def test_a_stream_holds_its_slot_until_it_is_closed(in_context: bool) -> None:
    store, _ = make_memory_store()
    more = threading.Event()
    app = make_app()
    RateLimit(app, ONE, store=store, name="slots", key=lambda: "k")

    @app.get("/stream")
    def stream() -> Response:
        def parts() -> Iterator[str]:
            yield "a"
            assert more.wait(30)
            yield "b"

        return Response(stream_with_context(parts()) if in_context else parts())

    with serving(app) as port:
        with closing(ask(port, "/stream")) as answer:
            assert (answer.status, answer.read(1)) == (200, b"a")
            assert status(port) == 429
            more.set()
            assert answer.read() == b"b"
        until_free(slots(store))
        assert status(port) == 200


def test_a_later_limit_that_refuses_frees_the_slot() -> None:
    store, _ = make_memory_store()
    app = Flask(__name__)
    limiter = RateLimit(app, ONE, store=store, name="slots", key=lambda: "k")
    app.add_url_rule("/", "index", limiter.limit("1/h", key=lambda: "k")(lambda: "ok"))
    assert codes(app.test_client(), "/", 3) == [200, 429, 429]
    assert slots(store).peek("k").remaining == 1


def test_what_a_stream_takes_while_it_is_sent() -> None:
    store, _ = make_memory_store()
    app = Flask(__name__)
    limiter = RateLimit(app, store=store, key=lambda: "k")

    @limiter.limit(ONE, name="slots")
    def part() -> str:
        return "a"

    @app.get("/")
    def view() -> Response:
        return Response(stream_with_context(part() for _ in range(1)))

    client = app.test_client()
    for _ in range(3):
        with closing(client.get("/")) as answer:
            assert answer.text == "a"
    assert slots(store).peek("k").remaining == 1


def test_an_app_context_of_several_requests() -> None:
    """`g` is the same in all of them."""
    store, _ = make_memory_store()
    app = make_app()
    RateLimit(app, "concurrency: 2 ttl 30s", store=store, name="slots", key=lambda: "k")
    client = app.test_client()

    @app.get("/outer")
    def outer() -> str:
        inner = codes(client, "/", 2)
        left = Limiter("concurrency: 2 ttl 30s", store=store, name="slots").peek("k").remaining
        return f"{inner} {left}"

    with app.app_context():
        assert codes(client, "/", 3) == [200] * 3
        assert client.get("/outer").text == "[200, 200] 1"
        assert codes(client, "/outer", 3) == [200] * 3


def test_a_failed_function_after_the_view_frees_the_slot() -> None:
    store, _ = make_memory_store()
    app = Flask(__name__)
    broken = True

    @app.after_request
    def fail(response: Response) -> Response:  # runs after the extension's
        if broken:
            raise RuntimeError
        return response

    limiter = RateLimit(app, store=store, key=lambda: "k")
    view = limiter.limit(ONE)(lambda: Response(iter(["a"])))
    app.add_url_rule("/", "index", view)
    client = app.test_client()
    assert codes(client, "/", 2) == [500, 500]
    broken = False
    assert codes(client, "/", 2) == [200, 200]
