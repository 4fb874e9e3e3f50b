#!/usr/bin/env python3
"""Writes the vectors: takes the scenarios, fills in what the reference model answers, compares it
with what people wrote by hand, and writes the JSON files.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import policy_table  # noqa: E402
import random_steps  # noqa: E402
import step_traces  # noqa: E402
from scenarios import changes, clocks, costs, long, ranges, rates, refunds, waits  # noqa: E402
from scenarios.dsl import Scenario, Step  # noqa: E402

from support.model import ALLOWED, Decision, Rule, Ticket, TokenBucket  # noqa: E402
from support.policy_text import canonical, parse  # noqa: E402
from support.vectors import FIELDS, OPS, OUTCOMES, Tally, crowd, lehmer  # noqa: E402

Json = dict[str, Any]


class MismatchError(Exception):
    """The model and a hand-written expectation differ: one of the two is wrong."""


def rule_json(rule: str | tuple[int, int, int]) -> Json:
    """Both forms of a rule, so that a runner may take either."""
    if isinstance(rule, str):
        made = parse(rule)
        assert made is not None, "unlimited has no state and no traces"
        return {"text": rule, **numbers(made)}
    made = Rule.make(*rule)
    return {"text": canonical(made), **numbers(made)}


def numbers(rule: Rule) -> Json:
    return {"capacity": rule.capacity, "tokens": rule.tokens, "period_us": rule.period_us}


def to_rule(data: Json) -> Rule:
    return Rule(data["capacity"], data["tokens"], data["period_us"])


def answer(decision: Decision) -> Json:
    return {name: getattr(decision, name) for name in FIELDS}


def poll(model: TokenBucket, step: Step) -> tuple[int, Decision]:
    """Plays a repeated step; returns how many were allowed, and the last decision.

    Refused polls change nothing and go on being refused until retry_after, so they are skipped.
    (test_model.py holds this against polling every single time.)
    """
    key, cost, wait, every = step["key"], step["cost"], step.get("max_wait_us", 0), step["every_us"]
    i, last, allowed = 0, step["repeat"] - 1, 0
    while True:
        now = step["now"] + i * every
        decision, _ = model.check(key, cost, now, wait)
        allowed += decision.outcome == ALLOWED
        if i == last:
            return allowed, decision
        skip = 1
        if decision.outcome != ALLOWED:
            retry = decision.retry_after_us
            skip = last - i if retry is None or every == 0 else -(-retry // every)
        i = min(i + skip, last)


def play(scenario: Scenario) -> Json:
    """The trace of a scenario, as it goes into the file."""
    rule = rule_json(scenario.rule)
    model = TokenBucket(to_rule(rule))
    tickets: dict[str, tuple[int, Ticket]] = {}
    steps: list[Json] = []
    for index, source in enumerate(scenario.steps):
        step = {name: value for name, value in source.items() if name not in ("want", "id")}
        if step.get("key") == "k":
            del step["key"]
        key, now, op = source.get("key", "k"), source["now"], source["op"]
        if op == "rule":
            step["rule"] = rule_json(source["rule"])
            model.rule = to_rule(step["rule"])
            steps.append(step)
            continue
        if "repeat" in step:
            count, decision = poll(model, source)
            compare(scenario, index, {"admitted": step["expect_allowed"]}, {"admitted": count})
        elif op == "check":
            decision, ticket = model.check(key, source["cost"], now, source.get("max_wait_us", 0))
            if "id" in source:
                if ticket is None:
                    raise MismatchError(
                        f"{scenario.name} step {index}: nothing was charged, so no ticket"
                    )
                tickets[source["id"]] = index, ticket
        elif op == "peek":
            decision = model.peek(key, source["cost"], now)
        elif op == "refund":
            step["ticket"], ticket = tickets[source["id"]]
            decision = model.refund(key, ticket, now)
        else:
            decision = model.reset(key, now)
        step["expect"] = answer(decision)
        compare(scenario, index, source["want"] or {}, step["expect"])
        steps.append(step)
    head: Json = {"name": scenario.name, "comment": scenario.comment}
    if scenario.case:
        head["case"] = list(scenario.case)
    return {**head, "rule": rule, "steps": steps}


def compare(scenario: Scenario, index: int, want: Json, got: Json) -> None:
    wrong = [
        f"{name}: by hand {value}, model {got[name]}"
        for name, value in want.items()
        if got[name] != value
    ]
    if wrong:
        raise MismatchError(
            f"{scenario.name} step {index} {scenario.steps[index]}:\n  " + "\n  ".join(wrong)
        )


RANDOM_RULES = [
    "5/s burst 20",
    "3/s",
    "7/min burst 4",
    "1000003/s burst 50",
    "1/s",
    "100/min burst 7",
    "11/13ms burst 30",
    "0/s",
]
RANDOM_KEYS = ["a", "b", "user:3", "{d}", "\u0643"]


def random_trace(count: int, seed: int) -> Json:
    """A walk with every operation in it: compact rows, described in the README."""
    draw = lehmer(seed)
    pick: Callable[[Any], Any] = lambda items: items[draw() % len(items)]  # noqa: E731
    rules = [rule_json(text) for text in RANDOM_RULES]
    model = TokenBucket(to_rule(rules[0]))
    tickets: list[tuple[int, int, Ticket]] = []  # row, key, ticket
    now, rows = 1_790_000_000_000_000, []
    for row in range(count):
        scale = pick((0, 0, 1, 10, 1_000, 30_000, 200_000, 1_000_000))
        now += draw() % (scale + 1) if draw() % 12 else -(draw() % (2 * scale + 1))
        if draw() % 5_000 == 0:
            now += 3_600_000_000
        kind, key = draw() % 100, draw() % len(RANDOM_KEYS)
        name, wait, ticket_row = RANDOM_KEYS[key], 0, None
        cost = pick((0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4, 5, 21))
        if kind < 2:
            index = draw() % len(rules)
            model.rule = to_rule(rules[index])
            rows.append([now, OPS.index("rule"), index])
            continue
        if kind < 18 and tickets:
            op = "refund"
            at = max(0, len(tickets) - 1 - draw() % 12)
            ticket_row, key, ticket = tickets[at]
            decision, cost = model.refund(RANDOM_KEYS[key], ticket, now), 0
        elif kind < 19:
            op, cost = "reset", 0
            decision = model.reset(name, now)
        elif kind < 30:
            op = "peek"
            decision = model.peek(name, cost, now)
        else:
            op, wait = "check", pick((0, 0, 0, 1, 400_000, 3_000_000))
            decision, charged = model.check(name, cost, now, wait)
            if charged is not None:
                tickets.append((row, key, charged))
        numbers = [answer(decision)[field] for field in FIELDS[2:]]
        rows.append(
            [
                now,
                OPS.index(op),
                key,
                cost,
                wait,
                ticket_row,
                OUTCOMES.index(decision.outcome),
                *numbers,
            ]
        )
    return {"rules": rules, "keys": RANDOM_KEYS, "events": rows}


CROWDS = [
    (
        "article",
        "1,000 users, 10 a second each, 5 a second allowed",
        "5/s burst 10",
        1_000,
        100,
        201,
        1,
    ),
    ("tight", "the same crowd in a tenth of the time", "5/s burst 10", 1_000, 100, 21, 1),
    ("thirds-with-costs", "7 per 3 s, costs 1 to 4", "7/3s burst 9", 100, 200, 2_001, 4),
    (
        "microseconds",
        "more arrivals than microseconds; a fraction of one per token",
        "1000003/s burst 40",
        3,
        5_000,
        2,
        3,
    ),
]


def crowd_result(scenario: Json) -> Json:
    model, tally = TokenBucket(to_rule(scenario["rule"])), Tally(scenario["users"])
    for now, user, cost in crowd(scenario):
        decision, _ = model.check(f"user{user}", cost, now)
        tally.add(
            user, decision.outcome == ALLOWED, decision.remaining, decision.retry_after_us or 0
        )
    return tally.result()


def crowds() -> list[Json]:
    made = []
    for seed, (name, comment, text, users, requests, gap, max_cost) in enumerate(
        CROWDS, 20_261_130
    ):
        scenario = {
            "name": name,
            "comment": comment,
            "rule": rule_json(text),
            "users": users,
            "requests_per_user": requests,
            "seed": seed,
            "start_us": 1_000_000,
            "gap_us": gap,
            "max_cost": max_cost,
        }
        made.append({**scenario, "expect": crowd_result(scenario)})
    return made


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)


def file_text(kind: str, body: Iterable[tuple[str, Any]]) -> str:
    """JSON with one row, step or trace part per line, so that a change is a readable diff."""
    lines = ['{"$schema": "schema.json", "kind": ' + compact(kind)]
    for name, value in body:
        if isinstance(value, list) and name not in ("keys",):
            rows = ",\n".join(
                trace_text(row) if isinstance(row, dict) and "steps" in row else compact(row)
                for row in value
            )
            lines.append(f"{compact(name)}: [\n{rows}\n]")
        else:
            lines.append(f"{compact(name)}: {compact(value)}")
    return ",\n".join(lines) + "}\n"


def trace_text(trace: Json) -> str:
    head = compact({name: value for name, value in trace.items() if name != "steps"})
    return (
        head[:-1]
        + ', "steps": [\n  '
        + ",\n  ".join(compact(step) for step in trace["steps"])
        + "]}"
    )


def traces(*modules: Any) -> list[Json]:
    made = [play(scenario) for module in modules for scenario in module.SCENARIOS]
    names = [trace["name"] for trace in made]
    assert len(set(names)) == len(names), "two traces have the same name"
    return made


def makers() -> dict[str, Callable[[], str]]:
    """Every generated file and what makes its text."""
    token_buckets = (rates, costs, clocks, waits, refunds, changes, ranges)
    made: dict[str, Callable[[], str]] = {
        "token_bucket.json": lambda: file_text("traces", [("traces", traces(*token_buckets))]),
        "long.json": lambda: file_text("traces", [("traces", traces(long))]),
        "random.json": lambda: file_text("random", random_trace(10_000, seed=42).items()),
        "users.json": lambda: file_text("users", [("scenarios", crowds())]),
        "policies.json": lambda: file_text("policies", policy_table.tables().items()),
    }
    made["random_steps.json"] = lambda: file_text(
        "random_steps", random_steps.trace(10_000, seed=7).items()
    )
    for name, modules in step_traces.FILES.items():
        made[name] = lambda modules=modules: file_text(  # type: ignore[misc]
            "traces", [("traces", step_traces.traces(*modules))]
        )
    return made


def files() -> dict[str, str]:
    """Every generated file and its text."""
    return {name: make() for name, make in makers().items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, fail if a file is not current"
    )
    parser.add_argument("names", nargs="*", help="only these files; without any, all of them")
    arguments = parser.parse_args()
    check, all_of_them = arguments.check, makers()
    stale = []
    for name in arguments.names or all_of_them:
        path, text = HERE / name, all_of_them[name]()
        if not path.exists() or path.read_text("utf-8") != text:
            stale.append(name)
            if not check:
                path.write_text(text, "utf-8")
    print(
        ("not current: " if check else "written: ") + ", ".join(stale) if stale else "all current"
    )
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
