"""examples/login_flask.py: failures of an address and of a user, in one decision."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from conftest import StoreMaker
from flask.testing import FlaskClient

from saqiya import Store

PASSWORDS = {"ann": "a", "bob": "b"}


def load_example() -> Any:
    path = Path(__file__).parents[2] / "examples" / "login_flask.py"
    spec = importlib.util.spec_from_file_location("login_flask", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_client(store: Store | None) -> FlaskClient:
    app = load_example().create_app(lambda user, word: PASSWORDS.get(user) == word, store)
    client: FlaskClient = app.test_client()
    return client


def login(client: FlaskClient, user: str, password: str, address: str = "192.0.2.1") -> Any:
    form = {"user": user, "password": password}
    return client.post("/login", data=form, environ_base={"REMOTE_ADDR": address})


def test_only_failures_count(make_store: StoreMaker) -> None:
    store, clock = make_store()
    client = make_client(store)
    for _ in range(30):
        assert login(client, "ann", "a").status_code == 200
    assert [login(client, "ann", "x").status_code for _ in range(6)] == [401] * 5 + [429]
    refused = login(client, "ann", "a")  # the right password does not help
    assert refused.status_code == 429
    assert refused.json["error"] == "rate_limited"
    assert refused.headers["Retry-After"] == "900"
    assert refused.headers["RateLimit-Policy"].startswith('"login-user"')
    assert login(client, "ann", "a", "192.0.2.2").status_code == 429  # from anywhere
    assert login(client, "bob", "b").status_code == 200  # the address has 15 left
    clock.advance(900)
    assert login(client, "ann", "a").status_code == 200


def test_an_address_that_tries_many_users(make_store: StoreMaker) -> None:
    store, _ = make_store()
    client = make_client(store)
    answers = [login(client, f"user{i}", "x") for i in range(25)]
    assert [answer.status_code for answer in answers] == [401] * 20 + [429] * 5
    assert answers[-1].headers["RateLimit-Policy"].startswith('"login-address"')
    # What the address was refused for was not charged to the users.
    assert [login(client, "user24", "x", f"198.51.100.{i}").status_code for i in range(6)] == (
        [401] * 5 + [429]
    )


def test_what_is_no_user_name() -> None:
    client = make_client(None)
    for user in ("u" * 257, "u" * 70_000, "\u20ac" * 30_000):
        assert login(client, user, "a").status_code == 400
    for form in ({}, {"user": "ann"}, {"password": "a"}):
        assert client.post("/login", data=form).status_code == 400
    for user in ("u" * 256, "\U0001f511" * 256, "", "\x00\r\n"):
        assert login(client, user, "a").status_code == 401
    for body in (b"user=%FF%FE&password=a", b"user=a%ED%A0%80&password=%00"):
        answer = client.post("/login", data=body, content_type="application/x-www-form-urlencoded")
        assert answer.status_code == 401


def test_a_store_that_is_away() -> None:
    client = make_client(Store("redis://127.0.0.1:1", deadline=10))
    answer = login(client, "ann", "a")
    assert answer.status_code == 503
    assert answer.json["error"] == "rate_limiter_unavailable"


def test_in_the_process_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    client = make_client(None)
    assert login(client, "ann", "a").json == {"user": "ann"}
