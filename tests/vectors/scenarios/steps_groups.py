"""Several limiters at once: all are charged, or none is."""

import itertools
import random

from .dsl import (
    EPOCH,
    MIN,
    MS,
    D,
    H,
    S,
    Step,
    allowed,
    check,
    denied,
    given,
    never,
    peek,
    refund,
)
from .words import (
    UNLIMITED,
    Case,
    Policy,
    bound,
    bucket,
    calendar,
    check_all,
    fixed,
    group,
    leaky,
    leases,
    log,
    maybe,
    of_item,
    peek_all,
    policy,
    refund_all,
    renew,
    says,
    settle,
    sliding,
    under,
)

T = EPOCH - EPOCH % D  # a day begins
WHOLE = 2**53 - 1
ONE_OF_EACH: dict[str, Policy] = {
    "bucket": bucket(10, MIN),
    "fixed": fixed(10, MIN),
    "sliding": sliding(10, MIN),
    "log": log(10, MIN),
    "calendar": calendar(10, "day"),
    "leases": leases(10, MIN),
}


def pair(first: str, second: str) -> Case:
    """The second refuses, so the first is not charged; the other way round; then given back."""
    return group(
        f"group-{first}-and-{second}",
        [ONE_OF_EACH[first], ONE_OF_EACH[second]],
        "Neither is charged when the other refuses; what was charged together is given back"
        " together.",
        check_all(T, (0, "a", 4), (1, "b", 7), want=bound(1, 0, says("allowed", remaining=3))),
        check_all(T, (0, "a", 4), (1, "b", 4), want=bound(1, 0, says("denied", remaining=3))),
        under(0, peek(T, 6, says("allowed", remaining=6), key="a")),
        check_all(T, (0, "a", 7), (1, "b", 3), want=bound(0, 0, says("denied", remaining=6))),
        under(1, peek(T, 3, says("allowed", remaining=3), key="b")),
        check_all(T, (0, "a", 11), (1, "b", 4), want=bound(0, 0, says("never", remaining=6))),
        check_all(
            T, (0, "a", 6), (1, "b", 3), want=bound(0, 0, says("allowed", remaining=0)), id="x"
        ),
        check_all(T, (1, "b", 1), (0, "a", 1), want=says("denied", remaining=0)),
        refund_all(T + 1, "x", says("allowed")),
        refund_all(T + 1, "x", says("denied")),
        under(0, peek(T + 1, 6, says("allowed", remaining=6), key="a")),
        under(1, peek(T + 1, 3, says("allowed", remaining=3), key="b")),
        case="C8 C9",
    )


def orders() -> list[Case]:
    """The same rules in every order."""
    rules = {"a": bucket(5, S), "b": fixed(7, MIN), "c": log(9, H)}
    cases = []
    for order in itertools.permutations(rules):
        place = {name: order.index(name) for name in rules}
        cases.append(
            group(
                f"group-order-{''.join(order)}",
                [policy(*(rules[name] for name in order))],
                "The order of the rules does not matter to what is decided.",
                check(T, 3, bound(0, place["a"], allowed(2, 600 * MS))),
                check(T, 3, bound(0, place["a"], denied(2, 200 * MS, 600 * MS))),
                check(T + S, 3, bound(0, place["b"], allowed(1, 59 * S))),
                check(T + S, 2, bound(0, place["b"], denied(1, 59 * S, 59 * S))),
                check(T + S, 6, bound(0, place["a"], never(2, 600 * MS))),
                check(T + MIN, 3, bound(0, place["c"], allowed(0, H))),
                check(T + MIN, 1, bound(0, place["c"], denied(0, H - MIN, H))),
                check(T + MIN, 0, bound(0, place["c"], allowed(0, H))),
                peek(T + MIN, 4, says("denied", rule=place["c"])),
                case="C9",
            )
        )
    return cases


def walk(seed: int, count: int = 150) -> list[Step]:
    draw = random.Random(f"groups{seed}")
    now, steps = T, []
    for index in range(count):
        now += draw.choice((0, 0, 1, 10 * MS, S, draw.randrange(10 * S), draw.randrange(MIN)))
        asked = [
            (draw.randrange(7), draw.choice("ab"), draw.choice((0, 1, 1, 2, 3, 5)))
            for _ in range(draw.randrange(1, 6))
        ]
        wait = draw.choice((0, 0, 0, -1, S))
        old = f"t{max(0, index - draw.randrange(1, 8))}"
        kind = draw.randrange(100)
        if kind < 55:
            steps.append(maybe(check_all(now, *asked, wait=wait, id=f"t{index}")))
        elif kind < 65:
            steps.append(maybe(peek_all(now, *asked)))
        elif kind < 80:
            steps.append(maybe(refund_all(now, old)))
        elif kind < 88:
            steps.append(maybe(of_item(0, settle(now, old, draw.randrange(8)))))
        elif kind < 92:
            steps.append(maybe(of_item(0, refund(now, old))))
        else:
            limiter, key, cost = asked[0]
            steps.append(maybe(under(limiter, check(now, cost, key=key))))
    return steps


ALL = [*ONE_OF_EACH.values(), policy(leaky(2, S, 5), fixed(30, MIN))]

SCENARIOS = [
    *[pair(*names) for names in itertools.combinations(ONE_OF_EACH, 2)],
    *orders(),
    *[
        group(f"group-walk-{seed}", ALL, "A random walk under one limiter of each.", walk(seed))
        for seed in range(5)
    ],
    group(
        "group-two-rules-five-calls",
        [policy(fixed(10, MIN), log(3, MIN))],
        "10/min and 3/min on one call: after five calls 7 and 0 are left.",
        check(T, 1, bound(0, 1, allowed(2, MIN))),
        check(T, 1, bound(0, 1, allowed(1, MIN))),
        check(T, 1, bound(0, 1, allowed(0, MIN))),
        check(T, 1, bound(0, 1, denied(0, MIN, MIN))),
        check(T, 1, bound(0, 1, denied(0, MIN, MIN))),
        peek(T, 0, bound(0, 1, allowed(0, MIN))),
        case="C9",
    ),
    group(
        "group-longest-wait-binds",
        [policy(fixed(2, S), fixed(3, H), fixed(5, D))],
        "Of those that refuse the one with the longest wait is told.",
        check(T, 2, bound(0, 0, allowed(0, S))),
        check(T, 2, bound(0, 1, denied(1, H, H))),
        check(T, 1, bound(0, 0, denied(0, S, S))),
        check(T + S, 1, bound(0, 1, allowed(0, H - S))),
        check(T + S, 1, bound(0, 1, denied(0, H - S, H - S))),
        check(T + H, 2, bound(0, 0, allowed(0, S))),
        check(T + H, 1, bound(0, 2, denied(0, 23 * H, 23 * H))),
    ),
    group(
        "group-ties-go-to-the-first",
        [policy(fixed(4, MIN), log(4, MIN), leases(4, MIN))],
        "Equal shares, equal waits: the first.",
        check(T, 2, bound(0, 0, allowed(2, MIN))),
        check(T, 2, bound(0, 0, allowed(0, MIN))),
        check(T, 1, bound(0, 0, denied(0, MIN, MIN))),
        check(T, 5, bound(0, 0, never(0, MIN))),
    ),
    group(
        "group-shares-are-compared-exactly",
        [policy(fixed(WHOLE, H), fixed(WHOLE - 1, D), fixed(3, MIN))],
        "Shares of 2^53 - 1 that differ in the last place.",
        check(T, 1, bound(0, 2, allowed(2, MIN))),
        check(T, 0, bound(0, 2, allowed(2, MIN))),
        check(T + MIN, 0, bound(0, 1, allowed(WHOLE - 2, D - MIN))),
        check(T + H, 0, bound(0, 1, allowed(WHOLE - 2, D - H))),
    ),
    group(
        "group-never-wins",
        [fixed(10, MIN), log(3, MIN), leases(0, MIN)],
        "What can never be wins over what is refused, and over what is allowed.",
        check_all(T, (0, "a", 10), want=bound(0, 0, allowed(0, MIN))),
        check_all(T, (0, "a", 1), (1, "a", 4), want=bound(1, 0, never(3, 0))),
        check_all(T, (1, "a", 1), (2, "a", 1), want=bound(1, 0, never(0, 0))),
        check_all(T, (1, "a", 0), (2, "a", 0), want=bound(1, 0, never(0, 0))),
        check_all(T, (1, "a", 4), (2, "a", 1), want=bound(0, 0, never(3, 0))),
        check_all(T, (1, "a", 3), want=bound(0, 0, allowed(0, MIN))),
        case="C6 C7 C21",
    ),
    group(
        "group-duplicates-are-added",
        [fixed(10, MIN), log(10, MIN)],
        "Items of one limiter and key are added up, decided once, told alike; given back each.",
        check_all(T, (0, "a", 3), (0, "a", 4), want=bound(0, 0, allowed(3, MIN)), id="x"),
        check_all(T, (0, "a", 2), (0, "b", 2), (0, "a", 2), want=bound(0, 0, denied(3, MIN, MIN))),
        check_all(T, (0, "a", 6), (0, "a", 6), want=bound(0, 0, never(3, MIN))),
        check_all(T, (1, "a", 5), (0, "a", 3), (1, "a", 5), want=bound(0, 0, allowed(0, MIN))),
        of_item(1, refund(T + 1, "x", says("allowed", remaining=4))),
        of_item(0, refund(T + 1, "x", says("allowed", remaining=7))),
        refund_all(T + 2, "x", says("denied", remaining=7)),
        under(0, peek(T + 2, 7, says("allowed", remaining=7), key="a")),
        case="C9",
    ),
    group(
        "group-duplicates-of-a-bucket",
        [bucket(10, 10 * S)],
        "In part refilled and charged by others, equal items give back in order what one would.",
        check_all(T, (0, "a", 5), (0, "a", 5), want=bound(0, 0, allowed(0, 10 * S)), id="x"),
        under(0, check(T + 6 * S, 6, allowed(0, 10 * S), key="a")),
        of_item(0, refund(T + 6 * S, "x", given(4, 6 * S))),
        of_item(1, refund(T + 6 * S, "x", says("denied", remaining=4))),
    ),
    group(
        "group-duplicates-of-a-reservation",
        [bucket(10, 10 * S)],
        "A reservation of equal items is given back as a whole.",
        check_all(T, (0, "b", 10), want=bound(0, 0, allowed(0, 10 * S))),
        check_all(
            T,
            (0, "b", 2),
            (0, "b", 3),
            want=bound(0, 0, allowed(0, 15 * S, delay=5 * S)),
            wait=10 * S,
            id="x",
        ),
        refund_all(T, "x", given(0, 10 * S)),
    ),
    group(
        "group-duplicates-of-leases",
        [leases(10, MIN)],
        "Two items of one key make one lease, of which each has its own cost.",
        check_all(T, (0, "a", 3), (0, "a", 4), want=bound(0, 0, allowed(3, MIN)), id="x"),
        of_item(0, renew(T + S, "x", given(3, MIN))),
        of_item(1, renew(T + S, "x", given(3, MIN))),
        of_item(0, settle(T + 2 * S, "x", 1, given(5, 59 * S))),
        refund_all(T + 3 * S, "x", given(9, 58 * S)),
    ),
    group(
        "group-duplicates-and-zero",
        [fixed(10, MIN)],
        "A cost of 0 beside a charge of the same key.",
        check_all(T, (0, "a", 0), (0, "a", 4), want=bound(0, 0, allowed(6, MIN)), id="x"),
        check_all(T, (0, "a", 0), (0, "b", 0), want=bound(0, 0, allowed(6, MIN))),
        check_all(T, (0, "b", 0), (0, "b", 0), want=bound(0, 0, allowed(10, 0))),
        refund_all(T, "x", given(10, 0)),
    ),
    group(
        "group-unlimited",
        [UNLIMITED, fixed(2, MIN)],
        "Unlimited items are passed over.",
        check_all(T, (0, "a", 1_000), (1, "a", 1), want=bound(1, 0, allowed(1, MIN)), id="x"),
        check_all(T, (1, "a", 2), (0, "a", 1), want=bound(0, 0, denied(1, MIN, MIN))),
        check_all(T, (0, "a", WHOLE), (0, "b", 1), want=bound(0, 0, allowed(WHOLE, 0))),
        peek_all(T, (0, "a", 1), (1, "b", 2), want=bound(1, 0, allowed(2, 0))),
        refund_all(T + 1, "x", given(2, 0)),
        case="C21",
    ),
    group(
        "group-many-keys-of-one-limiter",
        [fixed(3, MIN)],
        "Sixteen keys at once; one of them is used up.",
        check_all(T, *((0, f"u{i}", 1) for i in range(16)), want=bound(0, 0, allowed(2, MIN))),
        under(0, check(T, 2, allowed(0, MIN), key="u7")),
        check_all(T, *((0, f"u{i}", 1) for i in range(16)), want=bound(7, 0, denied(0, MIN, MIN))),
        under(0, peek(T, 2, allowed(2, MIN), key="u15")),
    ),
]
