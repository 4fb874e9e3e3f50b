"""Loads the vectors and plays them against anything that can check, peek, refund and reset.

The traces of all algorithms (StepDriver, run_steps) ask for more than those of token buckets.

    for trace in load("token_bucket.json"):
        run(trace, driver)            # AssertionError that names the trace and the step

An asynchronous runner plays the same operations itself:

    player = Player(trace)
    for op in player.operations():
        player.answer(op, *await my_driver.do(op))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

FOLDER = Path(__file__).resolve().parent.parent / "vectors"
FIELDS = ("outcome", "limit", "remaining", "retry_after_us", "reset_after_us", "delay_us")
OPS = ("check", "peek", "refund", "reset", "rule")  # the op codes of random.json
STEP_OPS = (  # those of random_steps.json
    *OPS,
    "settle",
    "renew",
    "check_all",
    "peek_all",
    "refund_all",
)
OUTCOMES = ("none", "allowed", "denied", "never")  # the outcome codes of random.json

RuleNumbers = dict[str, Any]  # capacity, tokens, period_us, and often text


class Answer(Protocol):
    """What a driver returns: six fields; retry_after_us is None when no wait helps."""

    @property
    def outcome(self) -> str: ...
    @property
    def limit(self) -> int: ...
    @property
    def remaining(self) -> int: ...
    @property
    def retry_after_us(self) -> int | None: ...
    @property
    def reset_after_us(self) -> int: ...
    @property
    def delay_us(self) -> int: ...


class Driver(Protocol):
    """The thing under test. Each trace wants a driver without state."""

    def set_now(self, now_us: int) -> None: ...
    def set_rule(self, rule: RuleNumbers) -> None: ...
    def check(self, key: str, cost: int, max_wait_us: int) -> tuple[Any, Any]:
        """The decision, and whatever refund() wants to see again."""

    def peek(self, key: str, cost: int) -> Any: ...
    def refund(self, key: str, ticket: Any) -> Any: ...
    def reset(self, key: str) -> Any: ...


Asked = tuple[int, str, int]  # limiter, key, cost


class StepDriver(Protocol):
    """The thing under test, of any algorithm. `limiter` is an index; each trace wants a driver
    without state. A ticket is whatever a check gave; that of a check_all is a sequence with one of
    each item."""

    def set_now(self, now_us: int) -> None: ...
    def set_policy(self, limiter: int, policy: dict[str, Any]) -> None:
        """`text`, and `rules` as numbers. A second call for a limiter keeps its name."""

    def check(self, limiter: int, key: str, cost: int, max_wait_us: int) -> tuple[Any, Any]: ...
    def peek(self, limiter: int, key: str, cost: int) -> Any: ...
    def refund(self, limiter: int, key: str, ticket: Any) -> Any: ...
    def settle(self, limiter: int, key: str, ticket: Any, cost: int) -> Any: ...
    def renew(self, limiter: int, key: str, ticket: Any) -> Any: ...
    def reset(self, limiter: int, key: str) -> Any: ...
    def check_all(self, items: list[Asked], max_wait_us: int) -> tuple[Any, Any]:
        """As check. Answers have `rule`, `item` and `each`, too, where a step expects them."""

    def peek_all(self, items: list[Asked]) -> Any: ...
    def refund_all(self, items: list[Asked], tickets: Any) -> Any: ...


@dataclass(frozen=True)
class Trace:
    name: str
    rule: RuleNumbers
    steps: list[dict[str, Any]]
    limiters: list[dict[str, Any]] = field(default_factory=list)  # policies; then no `rule`


@dataclass(frozen=True)
class Operation:
    """One call. A step with `repeat` is many of them; only the last has `expect`."""

    step: int
    now: int
    op: str
    key: str = "k"
    cost: int = 1
    max_wait_us: int = 0
    ticket: Any = None  # what check() gave back as the ticket, for a refund
    rule: RuleNumbers = field(default_factory=dict)
    expect: dict[str, Any] | None = None
    limiter: int = 0
    items: list[Asked] = field(default_factory=list)


class Player:
    """Yields a trace's operations, takes the answers, keeps the tickets, compares."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._tickets: dict[int, Any] = {}
        self._admitted = 0
        self._wanted = {step["ticket"] for step in trace.steps if "ticket" in step}

    def operations(self) -> Iterator[Operation]:
        for index, step in enumerate(self._trace.steps):
            op, key, limiter = step["op"], step.get("key", "k"), step.get("limiter", 0)
            if op == "rule":
                yield Operation(index, step["now"], op, rule=step["rule"], limiter=limiter)
                continue
            ticket = self._tickets[step["ticket"]] if "ticket" in step else None
            if "item" in step:
                ticket = ticket[step["item"]]
            items = [(i["limiter"], i["key"], i["cost"]) for i in step.get("items", [])]
            cost, wait = step.get("cost", 1), step.get("max_wait_us", 0)
            last, self._admitted = step.get("repeat", 1) - 1, 0
            for i in range(last):
                now = step["now"] + i * step["every_us"]
                yield Operation(index, now, op, key, cost, wait, limiter=limiter)
            now = step["now"] + last * step.get("every_us", 0)
            yield Operation(
                index, now, op, key, cost, wait, ticket, {}, step["expect"], limiter, items
            )
            if "expect_allowed" in step and self._admitted != step["expect_allowed"]:
                self._fail(index, "admitted", step["expect_allowed"], self._admitted)

    def answer(self, op: Operation, decision: Answer, ticket: Any = None) -> None:
        self._admitted += decision.outcome == "allowed"
        if op.expect is None:
            return
        if op.step in self._wanted:
            self._tickets[op.step] = ticket
        got = {name: getattr(decision, name) for name in op.expect if name != "each"}
        if "each" in op.expect:
            each = getattr(decision, "each")  # noqa: B009, only some answers have it
            got["each"] = [{name: getattr(one, name) for name in FIELDS} for one in each]
        if got != op.expect:
            self._fail(op.step, "decision", op.expect, got)

    def _fail(self, step: int, what: str, want: object, got: object) -> None:
        raise AssertionError(
            f"{self._trace.name}, step {step} {self._trace.steps[step]}:\n"
            f"  {what} wanted {want}\n  {what} got    {got}"
        )


def run(trace: Trace, driver: Driver) -> int:
    """Plays the trace; returns the number of operations."""
    player = Player(trace)
    driver.set_rule(trace.rule)
    count = 0
    for op in player.operations():
        count += 1
        driver.set_now(op.now)
        if op.op == "check":
            player.answer(op, *driver.check(op.key, op.cost, op.max_wait_us))
        elif op.op == "peek":
            player.answer(op, driver.peek(op.key, op.cost))
        elif op.op == "refund":
            player.answer(op, driver.refund(op.key, op.ticket))
        elif op.op == "reset":
            player.answer(op, driver.reset(op.key))
        else:
            driver.set_rule(op.rule)
    return count


def run_steps(trace: Trace, driver: StepDriver) -> int:
    """Plays a trace of any algorithms; returns the number of operations."""
    player = Player(trace)
    for index, policy in enumerate(trace.limiters):
        driver.set_policy(index, policy)
    count = 0
    for op in player.operations():
        count += 1
        driver.set_now(op.now)
        where = op.limiter, op.key
        if op.op == "rule":
            driver.set_policy(op.limiter, op.rule)
        elif op.op == "check":
            player.answer(op, *driver.check(*where, op.cost, op.max_wait_us))
        elif op.op == "check_all":
            player.answer(op, *driver.check_all(op.items, op.max_wait_us))
        elif op.op == "peek_all":
            player.answer(op, driver.peek_all(op.items))
        elif op.op == "refund_all":
            player.answer(op, driver.refund_all(op.items, op.ticket))
        elif op.op == "peek":
            player.answer(op, driver.peek(*where, op.cost))
        elif op.op == "settle":
            player.answer(op, driver.settle(*where, op.ticket, op.cost))
        elif op.op == "reset":
            player.answer(op, driver.reset(*where))
        else:
            player.answer(op, getattr(driver, op.op)(*where, op.ticket))  # refund, renew
    return count


def read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((FOLDER / name).read_text("utf-8"))
    return data


def load(name: str = "token_bucket.json") -> list[Trace]:
    """The traces of a file of traces, or the single one of random.json or random_steps.json."""
    data = read(name)
    if data["kind"] == "random_steps":
        first = [versions[0] for versions in data["limiters"]]
        return [Trace("random-steps", {}, _expand_steps(data), first)]
    if data["kind"] == "random":
        return [Trace("random", data["rules"][0], _expand(data))]
    made = []
    for trace in data["traces"]:
        rule = trace.get("rule", {})
        limiters = trace.get("limiters", [rule] if "rules" in rule else [])
        made.append(Trace(trace["name"], rule, trace["steps"], limiters))
    return made


def _expand(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The compact rows of random.json as steps; a row and its step have the same index."""
    steps: list[dict[str, Any]] = []
    limit = data["rules"][0]["capacity"]
    for now, code, *rest in data["events"]:
        op = OPS[code]
        if op == "rule":
            rule = data["rules"][rest[0]]
            limit = rule["capacity"]
            steps.append({"now": now, "op": op, "rule": rule})
            continue
        key, cost, wait, ticket, outcome, *numbers = rest
        step = {"now": now, "op": op, "key": data["keys"][key]}
        if op in ("check", "peek"):
            step["cost"] = cost
        if op == "check":
            step["max_wait_us"] = wait
        if op == "refund":
            step["ticket"] = ticket
        step["expect"] = dict(zip(FIELDS, [OUTCOMES[outcome], limit, *numbers], strict=True))
        steps.append(step)
    return steps


def _expand_steps(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The compact rows of random_steps.json as steps; a row and its step have the same index."""
    steps: list[dict[str, Any]] = []
    for now, code, *rest in data["events"]:
        op = STEP_OPS[code]
        if op == "rule":
            limiter, version = rest
            rule = data["limiters"][limiter][version]
            steps.append({"now": now, "op": op, "limiter": limiter, "rule": rule})
            continue
        asked, wait, ticket, outcome, *numbers, rule_index, item_index = rest
        items = [{"limiter": i, "key": data["keys"][k], "cost": c} for i, k, c in asked]
        step: dict[str, Any] = {"now": now, "op": op}
        step.update({"items": items} if op.endswith("_all") else items[0])
        if op in ("check", "check_all"):
            step["max_wait_us"] = wait
        if ticket is not None:
            step["ticket"] = ticket
        step["expect"] = dict(zip(FIELDS, [OUTCOMES[outcome], *numbers], strict=True))
        if op in ("check", "peek", "check_all", "peek_all"):
            step["expect"].update(rule=rule_index, item=item_index)
        steps.append(step)
    return steps


LEHMER_MODULUS, LEHMER_FACTOR = 2**31 - 1, 48_271


def lehmer(seed: int) -> Callable[[], int]:
    """x := x * 48271 mod (2^31 - 1). Every product is below 2^47, so a double holds it exactly."""
    x = seed

    def following() -> int:
        nonlocal x
        x = x * LEHMER_FACTOR % LEHMER_MODULUS
        return x

    return following


def crowd(scenario: dict[str, Any]) -> Iterator[tuple[int, int, int]]:
    """The arrivals of a scenario of users.json: now, user, cost."""
    draw = lehmer(scenario["seed"])
    arrivals = [u for u in range(scenario["users"]) for _ in range(scenario["requests_per_user"])]
    for i in range(len(arrivals) - 1, 0, -1):
        j = draw() % (i + 1)
        arrivals[i], arrivals[j] = arrivals[j], arrivals[i]
    now = scenario["start_us"]
    for user in arrivals:
        now += draw() % scenario["gap_us"]
        yield now, user, 1 + draw() % scenario["max_cost"]


class Tally:
    """Adds up the decisions of a crowd; `result()` is what users.json expects."""

    def __init__(self, users: int) -> None:
        self.admitted = [0] * users
        self.checksum = 1

    def add(self, user: int, allowed: bool, remaining: int, retry_after_us: int) -> None:
        self.admitted[user] += allowed
        value = remaining + 1 if allowed else retry_after_us
        self.checksum = (self.checksum * LEHMER_FACTOR + value) % LEHMER_MODULUS

    def result(self) -> dict[str, Any]:
        return {
            "admitted": sum(self.admitted),
            "checksum": self.checksum,
            "admitted_by_user": self.admitted,
        }
