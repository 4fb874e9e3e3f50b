"""Policies of several rules, and several limiters in one decision."""

from __future__ import annotations

import asyncio
import copy
import pickle
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from conftest import StoreMaker
from test_threads import in_threads

import saqiya
from saqiya import (
    AsyncLimiter,
    Decision,
    Limiter,
    SaqiyaError,
    Store,
    acquire_all,
    aio,
    check_all,
    peek_all,
    refund_all,
)
from support.redis_server import RedisServer

ALL = (
    "10/h; fixed-window: 9/h; sliding-window: 8/h; sliding-log: 7/h; calendar: 6/day; "
    "concurrency: 5 ttl 1h"
)


class Monitor:
    """What the server executes, by its own words."""

    def __init__(self, server: RedisServer) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        self._socket.sendall(b"MONITOR\r\n")
        self._file = self._socket.makefile("rb")
        assert self._file.readline() == b"+OK\r\n"
        self._server = server

    def commands(self) -> list[str]:
        """The names of those since the last call, with "lua" in front of a script's own."""
        self._server.cli("ECHO", "end of it")
        names = []
        while b'"ECHO" "end of it"' not in (line := self._file.readline()):
            source, _, command = line.decode("utf-8", "replace").partition("] ")
            name = command.split('"')[1].lower()
            names.append(f"lua {name}" if source.endswith("lua") else name)
        return names

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@contextmanager
def monitor(server: RedisServer) -> Iterator[Monitor]:
    made = Monitor(server)
    try:
        yield made
    finally:
        made.close()


def counts(decision: Decision) -> list[int]:
    return [rule.remaining for rule in decision.rules]


def test_rules_are_decided_together(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter(ALL, store=store, name="all")
    assert limiter.rule_count == 6
    decision = limiter.check("k", 2)
    assert counts(decision) == [8, 7, 6, 5, 4, 3]
    assert (decision.rule, decision.limit, decision.remaining) == (5, 5, 3)
    assert decision.items == (decision,)
    assert [rule.rule for rule in decision.rules] == list(range(6))
    refused = limiter.check("k", 4)
    assert (refused.outcome, refused.rule) == ("denied", 5)
    assert [rule.allowed for rule in refused.rules] == [True] * 5 + [False]
    assert counts(refused) == [8, 7, 6, 5, 4, 3]
    never = limiter.check("k", 6)
    assert (never.outcome, never.rule, never.rules[0].outcome) == ("never", 5, "allowed")
    assert counts(limiter.peek("k")) == [8, 7, 6, 5, 4, 3]
    assert limiter.refund("k", decision)
    assert counts(limiter.peek("k")) == [10, 9, 8, 7, 6, 5]
    assert not limiter.refund("k", decision)
    limiter.check("k", 5)
    assert limiter.reset("k")
    assert counts(limiter.peek("k")) == [10, 9, 8, 7, 6, 5]


def test_the_order_of_rules_does_not_matter(make_store: StoreMaker) -> None:
    store, _ = make_store()
    texts = ALL.split("; ")
    forward = Limiter(texts, store=store, name="f")
    backward = Limiter(texts[::-1], store=store, name="b")
    for cost in (1, 2, 9, 3, 1, 1):
        one, other = forward.check("k", cost), backward.check("k", cost)
        assert (one.outcome, one.retry_after_us) == (other.outcome, other.retry_after_us)
        assert one.outcome == "never" or (one.limit, one.remaining) == (
            (other.limit, other.remaining)
        )
        assert counts(one) == counts(other)[::-1]


def test_a_single_rule_is_its_own_part() -> None:
    decision = Limiter("5/s").check("k")
    assert decision.rules == decision.items == (decision,)
    assert decision.rules[0] is decision


def test_parts_share_their_tickets(make_store: StoreMaker) -> None:
    store, _ = make_store()
    first = Limiter("10/h; 20/d", store=store, name="first")
    second = Limiter("30/h", store=store, name="second")
    items = [(first, "k", 4), (second, "k", 5)]
    decision = check_all(items)
    assert [len(item.rules) for item in decision.items] == [2, 1]
    assert [item.remaining for item in decision.items] == [6, 25]
    assert [(rule.item, rule.rule) for rule in decision.rules] == [(0, 0), (0, 1), (1, 0)]
    assert second.refund("k", decision.items[1]).remaining == 30
    assert not second.refund("k", decision.items[1])
    assert not second.settle("k", decision.rules[2], 3)
    assert refund_all(items, decision)
    assert not first.refund("k", decision.items[0])
    assert [item.remaining for item in peek_all(items).items] == [10, 30]


def test_what_a_decision_is_given_back_to_must_fit() -> None:
    store = Store()
    one, two = Limiter("5/s", store=store), Limiter("5/s; 9/h", store=store)
    decision = check_all([(one, "k"), (two, "k")])
    for limiter in (one, two):
        for call in (limiter.refund, limiter.renew, limiter.release):
            with pytest.raises(SaqiyaError, match="number of rules"):
                call("k", decision)
        with pytest.raises(SaqiyaError):
            limiter.settle("k", decision, 1)
    for items, wrong in (
        ([(one, "k")], decision),
        ([(one, "k"), (one, "k"), (two, "k")], decision),
        ([(one, "k"), (one, "j")], one.check("k")),
    ):
        with pytest.raises(SaqiyaError, match="number of rules"):
            refund_all(items, wrong)
    assert refund_all([(one, "k"), (two, "k")], decision)  # a mistake spends nothing
    assert two.refund("k", one.peek("k")).outcome == "denied"  # nothing was charged


def test_a_refund_after_the_policy_got_more_rules(make_store: StoreMaker) -> None:
    """The states are others then, so nothing is given back, and nothing breaks."""
    store, _ = make_store()
    one = Limiter("5/s", store=store, name="n")
    two = Limiter("5/s; fixed-window: 9/h", store=store, name="n")
    before, after = one.check("k"), two.check("k", 2)
    assert two.refund("k", one.peek("k")).outcome == "denied"
    assert one.refund("k", before).outcome == "allowed"
    assert one.refund("k", after).outcome == "denied"
    assert counts(two.peek("k"))[1] == 7


def test_copies_keep_what_the_rules_say() -> None:
    decision = Limiter("5/s; 9/h").check("k", 2)
    for made in (pickle.loads(pickle.dumps(decision)), copy.deepcopy(decision)):
        assert made == decision
        assert made.rules == decision.rules
        assert hash(made) == hash(decision)
    limiter = Limiter("5/s; 9/h")
    decision = limiter.check("k", 2)
    assert not limiter.refund("k", pickle.loads(pickle.dumps(decision)))
    assert limiter.refund("k", decision)
    with pytest.raises(TypeError):
        Decision("allowed", rules=("x",))  # type: ignore[arg-type]


def test_user_1_of_global_100(make_store: StoreMaker) -> None:
    store, _ = make_store()
    user = Limiter("1/h", store=store, name="user")
    everybody = Limiter("100/h", store=store, name="global")
    decisions = [check_all([(user, "ann"), (everybody, "all")]) for _ in range(20)]
    assert [decision.allowed for decision in decisions] == [True] + [False] * 19
    refused = decisions[-1]
    assert (refused.item, refused.rule, refused.limit, refused.retry_after) == (0, 0, 1, 3600.0)
    assert [item.allowed for item in refused.items] == [False, True]
    assert everybody.peek("all").remaining == 99


def test_c9_two_limits_of_one_call(make_store: StoreMaker) -> None:
    store, _ = make_store()
    items = [
        (Limiter("10/min", store=store, name="a"), "k"),
        (Limiter("3/min", store=store, name="b"), "k"),
    ]
    assert sum(bool(check_all(items)) for _ in range(5)) == 3
    assert [item.remaining for item in peek_all(items).items] == [7, 0]


def test_equal_items_are_added_up(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("10/h", store=store, name="n")
    items = [(limiter, "k", 3), (limiter, "k", 4)]
    decision = check_all(items)
    assert [item.remaining for item in decision.items] == [3, 3]
    assert check_all(items).outcome == "denied"
    assert refund_all(items, decision).remaining == 10


def test_unlimited_items_are_passed_over(make_store: StoreMaker) -> None:
    store, _ = make_store()
    free = Limiter("unlimited", store=store)
    limiter = Limiter("2/h; 3/d", store=store)
    decision = check_all([(free, "k"), (limiter, "k")])
    assert (decision.item, decision.limit, decision.remaining) == (1, 2, 1)
    assert [item.limit for item in decision.items] == [2**53 - 1, 2]
    assert refund_all([(free, "k"), (limiter, "k")], decision).remaining == 2
    only = check_all([(free, "k"), (free, "j")])
    assert (only.outcome, only.remaining, len(only.items)) == ("allowed", 2**53 - 1, 2)

    async def main() -> Decision:
        later = AsyncLimiter("unlimited", store=store)
        single = await aio.check_all([(later, "k")])
        assert (single.outcome, len(single.items)) == ("allowed", 1)
        return await aio.check_all([(later, "k"), (later, "j")])

    assert asyncio.run(main()) == only


def test_wrong_items() -> None:
    store = Store()
    limiter, other = Limiter("5/s", store=store, name="n"), Limiter("5/s")
    later = AsyncLimiter("5/s", store=store)
    wrong_types: list[Any] = [
        [limiter],
        [(limiter,)],
        [(limiter, "k", 1, 2)],
        [("k", limiter)],
        [(limiter, 5)],
        [(limiter, "k", "1")],
        [(limiter, "k", True)],
        [(later, "k")],
        5,
        limiter,
    ]
    wrong_values: list[Any] = [
        [],
        [(limiter, "k")] * 17,
        [(limiter, "k", -1)],
        [(limiter, "k" * 65_537)],
        [(limiter, "k"), (other, "k")],
        [(limiter, "k"), (Limiter("7/s", store=store, name="n"), "k")],
    ]
    for call in (check_all, peek_all, lambda items: acquire_all(items, timeout=0)):
        for items in wrong_types:
            with pytest.raises(TypeError):
                call(items)
        for items in wrong_values:
            with pytest.raises(SaqiyaError):
                call(items)
    for items in wrong_types[:-2]:
        with pytest.raises(TypeError):
            refund_all(items, limiter.check("x", 0))
    with pytest.raises(SaqiyaError, match="one store"):
        check_all([(limiter, "k"), (other, "k")])
    with pytest.raises(SaqiyaError, match="one name"):
        check_all(wrong_values[-1])
    assert limiter.peek("k").remaining == 5


def test_64_threads_over_3_shared_rules(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limits = {"a": 300, "b": 200, "c": 100}
    limiters = {
        name: Limiter(f"fixed-window: {n}/h", store=store, name=name) for name, n in limits.items()
    }
    keys = ["ab", "bc", "ca", "abc"]
    taken: list[list[str]] = [[] for _ in range(64)]

    def work(number: int) -> None:
        for i in range(20):
            names = keys[(number + i) % len(keys)]
            if check_all([(limiters[name], "shared") for name in names]):
                taken[number].append(names)

    in_threads(64, work)
    used = "".join(names for mine in taken for names in mine)
    for name, limit in limits.items():
        assert used.count(name) <= limit
        assert limiters[name].peek("shared").remaining == limit - used.count(name)
    assert used.count("c") == 100


def test_one_script_call_and_no_write_on_refusal(redis: RedisServer) -> None:
    store = Store(redis.url, deadline=10)
    items = [(Limiter(ALL, store=store, name=f"n{i}"), f"key{i}") for i in range(3)]
    assert check_all(items)
    writes = ("lua set", "lua psetex", "lua del", "lua pexpire", "lua getset")
    with monitor(redis) as seen:
        assert check_all(items)
        commands = seen.commands()
        assert [name for name in commands if not name.startswith("lua")] == ["evalsha"]
        assert sum(name in writes for name in commands) >= 18
        while check_all(items):
            pass
        seen.commands()
        before = redis.cli("DEBUG", "DIGEST")
        seen.commands()
        assert not check_all(items)
        commands = seen.commands()
        assert [name for name in commands if not name.startswith("lua")] == ["evalsha"]
        assert not [name for name in commands if name in writes], commands
        assert {name for name in commands if name.startswith("lua")} <= {
            "lua get",
            "lua time",
            "lua mget",
            "lua pttl",
        }
        assert redis.cli("DEBUG", "DIGEST") == before


def test_a_store_that_is_away() -> None:
    store = Store("redis://127.0.0.1:1", deadline=10)
    limiter = Limiter("5/s; 9/h", store=store, failure="error")
    other = Limiter("5/s", store=store, failure="error")
    items = [(limiter, "k"), (other, "k")]
    decision = check_all(items)
    assert (decision.outcome, decision.reason) == ("unavailable", "connect")
    assert [rule.outcome for rule in decision.rules] == ["unavailable"] * 3
    assert [len(item.rules) for item in decision.items] == [2, 1]
    assert refund_all(items, decision).outcome == "unavailable"
    never = check_all([(limiter, "k", 6), (other, "k")])
    assert (never.outcome, [item.outcome for item in never.items]) == (
        "never",
        ["never", "unavailable"],
    )


def test_acquire_all_waits_by_reservation(make_store: StoreMaker) -> None:
    store, _ = make_store()
    items = [
        (Limiter("20/s burst 1", store=store, name="a"), "k"),
        (Limiter("10/s burst 1", store=store, name="b"), "k"),
    ]
    assert acquire_all(items, timeout=0).delay == 0
    assert acquire_all(items, timeout=5).delay == 0.1
    refused = acquire_all(items, timeout=0.01)
    assert (refused.outcome, refused.item) == ("denied", 1)


def test_a_queue_beside_another_rule_keeps_to_the_timeout(make_store: StoreMaker) -> None:
    """Its own wait would be longer: what it took is given back."""
    store, _ = make_store()
    limiter = Limiter("leaky-bucket: 1/h queue 5; fixed-window: 100/d", store=store)
    assert limiter.check("k")
    assert limiter.check("k").delay == 3600.0
    before = limiter.peek("k")
    started = time.monotonic()
    assert limiter.acquire("k", timeout=0.05).outcome == "denied"
    assert time.monotonic() - started < 30
    assert limiter.peek("k").rules == before.rules


def test_check_many_of_several_rules(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("3/h; 9/d", store=store)
    decisions = limiter.check_many(["a", "b", "a", "a", "a"])
    assert [d.outcome for d in decisions] == ["allowed"] * 4 + ["denied"]
    assert limiter.refund("b", decisions[1])
    assert not limiter.refund("b", decisions[1])
    assert counts(limiter.peek("b")) == [3, 9]


def test_single_items(make_store: StoreMaker) -> None:
    """One limiter of one rule, as a list: the same as without, and the same tickets."""
    store, _ = make_store()
    limiter = Limiter("10/h", store=store, name="n")
    later = AsyncLimiter("10/h", store=store, name="n")
    decision = check_all([(limiter, "k", 3)])
    assert decision.rules == decision.items == (decision,)
    assert limiter.refund("k", decision).remaining == 10
    single = limiter.check("k", 4)
    assert refund_all([(limiter, "k")], single).remaining == 10

    async def main() -> None:
        decision = await aio.check_all([(later, "k", 3)])
        assert decision.rules == decision.items == (decision,)
        assert decision.remaining == 7
        assert (await later.refund("k", decision)).remaining == 10
        single = await later.check("k", 4)
        assert (await aio.refund_all([(later, "k")], single)).remaining == 10

    asyncio.run(main())


def test_functions_are_documented() -> None:
    for name in ("check_all", "peek_all", "acquire_all", "refund_all"):
        for module in (saqiya, aio):
            assert getattr(module, name).__doc__
