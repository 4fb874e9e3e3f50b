"""Prints random requests under one rule with the answers they must get, as many as are wanted.

    python -m tests.support.model_stream --algorithm sliding-log --seed 3 --steps 1000000

(in the folder above `tests`; with `--algorithm list` the algorithms and their rules.) The first
line is the policy as JSON, as in the vectors: {"text": ..., "rules": [...]}. Which of the
algorithm's rules it is depends on the seed. Every other line is one request, ten integers:

    op now key cost other outcome remaining retry_after reset_after delay

op           0 check, 1 peek, 2 refund, 3 reset, 5 settle, 6 renew (as in random_steps.json)
now          the clock in microseconds; it never goes back
key          a number; the key is its decimal text
cost         check, peek: what is asked for; settle: what it was in truth; else 0
other        check: max_wait_us (-1: no wait at all); refund, settle, renew: the number of the line
             (requests only, from 0) of the check whose ticket is shown; else 0
outcome      1 allowed, 2 denied, 3 never
the rest     of the decision, in microseconds; retry_after is -1 with never

The limit of every decision is that of the rule. A ticket is shown at most once to refund or settle.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from typing import Any

if __package__ == "tests.support":
    from tests.support.model_fast import FastLeases, make
else:
    from support.model_fast import FastLeases, make

Event = tuple[int, int, int, int, int, int, int, int, int, int]
CHECK, PEEK, REFUND, RESET, SETTLE, RENEW = 0, 1, 2, 3, 5, 6
START, LAST = 1_790_000_000_000_000, 2**52
S, MIN, H, D = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000

RULES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "token-bucket": [
        ("5/s burst 20", {"capacity": 20, "tokens": 5, "period_us": S}),
        ("7/min burst 4", {"capacity": 4, "tokens": 7, "period_us": MIN}),
        ("leaky-bucket: 10/s queue 50", {"capacity": 1, "tokens": 10, "period_us": S, "queue": 50}),
        (
            "leaky-bucket: 3/s burst 4 queue 9",
            {"capacity": 4, "tokens": 3, "period_us": S, "queue": 9},
        ),
        ("1000003/s burst 50", {"capacity": 50, "tokens": 1_000_003, "period_us": S}),
    ],
    "fixed-window": [
        ("fixed-window: 10/s", {"limit": 10, "period_us": S}),
        ("fixed-window: 100/7001us", {"limit": 100, "period_us": 7_001}),
        ("fixed-window: 9007199254740991/h", {"limit": 2**53 - 1, "period_us": H}),
    ],
    "sliding-window": [
        ("sliding-window: 10/s", {"limit": 10, "period_us": S}),
        ("sliding-window: 100/7001us", {"limit": 100, "period_us": 7_001}),
        ("sliding-window: 4294967295/30d", {"limit": 2**32 - 1, "period_us": 30 * D}),
        ("sliding-window: 1000/h", {"limit": 1_000, "period_us": H}),
        (
            "sliding-window: 4000000007/1125899906842597us",
            {"limit": 4_000_000_007, "period_us": 1_125_899_906_842_597},
        ),
    ],
    "sliding-log": [
        ("sliding-log: 10/s", {"limit": 10, "period_us": S}),
        ("sliding-log: 100/min", {"limit": 100, "period_us": MIN}),
        ("sliding-log: 1000000/min", {"limit": 1_000_000, "period_us": MIN}),
        ("sliding-log: 25/40us", {"limit": 25, "period_us": 40}),
    ],
    "calendar": [
        (
            "calendar: 100/day tz Africa/Cairo",
            {"limit": 100, "unit": "day", "zone": "Africa/Cairo"},
        ),
        (
            "calendar: 1000/month anchor 31 tz Europe/London",
            {"limit": 1_000, "unit": "month", "anchor": 31, "zone": "Europe/London"},
        ),
        (
            "calendar: 500/week tz America/Santiago",
            {"limit": 500, "unit": "week", "zone": "America/Santiago"},
        ),
    ],
    "concurrency": [
        ("concurrency: 10 ttl 1s", {"limit": 10, "period": S}),
        ("concurrency: 30 ttl 1min", {"limit": 30, "period": MIN}),
        ("concurrency: 65535 ttl 1h", {"limit": 65_535, "period": H}),
    ],
}


def policy(algorithm: str, seed: int) -> dict[str, Any]:
    text, numbers = RULES[algorithm][seed % len(RULES[algorithm])]
    rule = {"algorithm": algorithm, **numbers}
    if "period" in rule:
        rule["ttl_us"] = rule.pop("period")
    return {"text": text, "rules": [rule]}


def pace(rule: dict[str, Any], limit: int, keys: int) -> list[int]:
    """Steps of the clock. About as much is asked for as the rule allows, over all keys."""
    period = rule.get("period_us") or rule.get("ttl_us")
    if period is None:
        period = {"day": D, "week": 7 * D, "month": 30 * D}[rule["unit"]]
    if rule["algorithm"] == "token-bucket":
        period = max(1, period * limit // rule["tokens"])
    unit = max(1, period // min(limit, 20) // keys)
    return [0] * 8 + [1] * 4 + [unit // 4] * 8 + [unit] * 8 + [2 * unit] * 3 + [period // 3]


def costs(limit: int) -> list[int]:
    small = [1, 1, 1, 2, 3] if limit <= 1_000 else [1, limit // 7, limit // 20, limit // 50]
    return [*small * 5, 0, limit // 2, limit, limit + 1]


def events(algorithm: str, seed: int, steps: int, keys: int = 8) -> Iterator[Event]:
    rule = policy(algorithm, seed)["rules"][0]
    model, draw = make(rule), random.Random(seed).random
    limit = model.limit
    # The clock has some 80 years to go: long periods are not lived through very often.
    most = (LAST - START) // (4 * (steps + 1))
    all_costs, paces = costs(limit), [min(one, most) for one in pace(rule, limit, keys)]
    cost_count, pace_count = len(all_costs), len(paces)
    leases, bucket = isinstance(model, FastLeases), algorithm == "token-bucket"
    check, peek = model.check, model.peek
    tickets: list[tuple[int, int, int, Any]] = []  # line, key, cost, charge; the last few
    now, again = START, False
    last_key = last_cost = retry = 0
    for line in range(steps):
        key, cost = int(draw() * keys), all_costs[int(draw() * cost_count)]
        kind = draw()
        if again:  # what was just refused, around the instant it was told
            again = False
            key, cost, kind = last_key, last_cost, kind * 0.7
            now += retry if draw() < 0.5 else retry - 1
            assert now < LAST
        else:
            scale = paces[int(draw() * pace_count)]
            scale = min(scale, LAST - now)
            now += int(draw() * (scale + 1)) if draw() < 0.7 else scale
        if kind < 0.7 or not tickets:
            wait = 0
            if bucket and kind < 0.2:
                wait = -1 if kind < 0.05 else int(draw() * 2 * S)
            (outcome, remaining, retry, reset, delay), charge = check(key, cost, now, wait)
            yield CHECK, now, key, cost, wait, outcome, remaining, retry, reset, delay
            if charge is not None:
                tickets.append((line, key, cost, charge))
                if len(tickets) > 40:
                    del tickets[:20]
            elif outcome == 2 and wait == 0 and kind < 0.3 and retry < 40 * most:
                again, last_key, last_cost = True, key, cost
            continue
        if kind < 0.77:
            yield (PEEK, now, key, cost, 0, *peek(key, cost, now))
        elif kind < 0.98:
            at = int(draw() * len(tickets))
            if leases and kind < 0.83:
                shown, key, _, charge = tickets[at]
                yield (RENEW, now, key, 0, shown, *model.renew(key, charge, now))
                continue
            shown, key, charged, charge = tickets.pop(at)
            if kind < 0.89:
                yield (REFUND, now, key, 0, shown, *model.settle(key, charge, charged, 0, now))
            else:
                actual = cost if draw() < 0.8 else charged
                numbers = model.settle(key, charge, charged, actual, now)
                yield (SETTLE, now, key, actual, shown, *numbers)
        else:
            model.forget(key)
            yield RESET, now, key, 0, 0, 1, limit, 0, 0, 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--algorithm", choices=[*RULES, "list"], required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=8)
    given = parser.parse_args()
    write = sys.stdout.write
    if given.algorithm == "list":
        for name, rules in RULES.items():
            write(f"{name}: {', '.join(text for text, _ in rules)}\n")
        return 0
    write(json.dumps(policy(given.algorithm, given.seed)) + "\n")
    block: list[str] = []
    for event in events(given.algorithm, given.seed, given.steps, given.keys):
        block.append(" ".join(map(str, event)) + "\n")
        if len(block) == 4096:
            write("".join(block))
            block.clear()
    write("".join(block))
    return 0


if __name__ == "__main__":
    sys.exit(main())
