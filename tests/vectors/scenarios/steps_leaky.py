"""Leaky buckets with a queue: what is admitted is told a delay, and leaves at exactly the rate."""

import random

from .dsl import (
    EPOCH,
    MIN,
    MS,
    YEAR,
    D,
    H,
    S,
    Step,
    allowed,
    burst,
    check,
    denied,
    given,
    never,
    peek,
    poll,
    refund,
    reset,
)
from .words import Policy, bucket, change, leaky, maybe, probe, says, settle, trace

T = EPOCH
TEN = leaky(10, S, 50)
SMALL = leaky(1, S, 3)  # one a second, three may wait


def walk(seed: int, limit: int, unit: int, count: int = 200) -> list[Step]:
    """unit: about the time one token takes. Often in debt, sometimes idle."""
    draw = random.Random(f"leaky{seed}")
    now, steps = T + seed, []
    for index in range(count):
        if draw.random() < 0.1:
            now -= draw.choice((1, unit // 3, unit))
        else:
            now += draw.choice((0, 0, 1, unit // 2, unit - 1, unit, draw.randrange(9 * unit)))
        cost = draw.choice((1, 1, 1, 1, 2, limit, draw.randrange(limit + 1), limit + 1))
        key, id = draw.choice(("k", "k", "l")), f"t{max(0, index - draw.randrange(1, 9))}"
        wait = draw.choice((0, 0, 0, -1, 1, unit, 3 * unit, 100 * unit))
        kind = draw.randrange(100)
        if kind < 62:
            steps.append(maybe({**check(now, cost, wait=wait, key=key), "id": f"t{index}"}))
        elif kind < 72:
            steps.append(maybe(peek(now, cost, key=key)))
        elif kind < 85:
            steps.append(maybe(refund(now, id)))
        elif kind < 98:
            steps.append(maybe(settle(now, id, draw.choice((0, 1, cost, 2 * cost)))))
        else:
            steps.append(maybe(reset(now, key=key)))
    return steps


WALKS: tuple[tuple[str, Policy, int], ...] = (
    ("tens", TEN, 100 * MS),
    ("thirds", leaky(3, S, 7, 4), S // 3),
    ("sevenths", leaky(7, MIN, 5), MIN // 7),
    ("fast", leaky(1_000_003, S, 40, 9), 1),
    ("slow", leaky(1, D, 3, 2), D),
    ("plain", bucket(5, S, 6), 200 * MS),
)

SCENARIOS = [
    trace(
        "leaky-fills-and-leaks",
        SMALL,
        "One goes, three wait a second each, the fifth is refused; a second later one joins.",
        check(T, 1, allowed(0, 1 * S, 0)),
        check(T, 1, allowed(0, 2 * S, 1 * S)),
        check(T, 1, allowed(0, 3 * S, 2 * S)),
        check(T, 1, allowed(0, 4 * S, 3 * S)),
        check(T, 1, denied(0, 1 * S, 4 * S)),
        check(T + S - 1, 1, denied(0, 1, 3 * S + 1)),
        check(T + S, 1, allowed(0, 4 * S, 3 * S)),
        check(T + S, 1, denied(0, 1 * S, 4 * S)),
        case="C11",
    ),
    trace(
        "leaky-fifty",
        TEN,
        "10/s queue 50: 51 of a hundred at one instant, the last one to leave after 5 s.",
        burst(T, 51, 51, allowed(0, 5_100 * MS, 5 * S)),
        burst(T, 49, 0, denied(0, 100 * MS, 5_100 * MS)),
        check(T + 100 * MS, 1, allowed(0, 5_100 * MS, 5 * S)),
        check(T + 100 * MS, 1, denied(0, 100 * MS, 5_100 * MS)),
        check(T + 5_200 * MS, 1, allowed(0, 100 * MS, 0)),
    ),
    trace(
        "leaky-never-two-at-once",
        TEN,
        "No burst after idling: one goes, the next is spaced.",
        check(T, 1, allowed(0, 100 * MS, 0)),
        check(T + H, 1, allowed(0, 100 * MS, 0)),
        check(T + H, 1, allowed(0, 200 * MS, 100 * MS)),
        check(T + H + 150 * MS, 1, allowed(0, 150 * MS, 50 * MS)),
    ),
    trace(
        "leaky-spacing-in-thirds",
        leaky(3, S, 6),
        "Slots a third of a second apart, kept exact, told rounded up.",
        check(T, 1, allowed(0, 333_334, 0)),
        check(T, 1, allowed(0, 666_667, 333_334)),
        check(T, 1, allowed(0, 1_000_000, 666_667)),
        check(T, 1, allowed(0, 1_333_334, 1_000_000)),
        check(T, 1, allowed(0, 1_666_667, 1_333_334)),
        check(T, 1, allowed(0, 2_000_000, 1_666_667)),
        check(T, 1, allowed(0, 2_333_334, 2_000_000)),
        check(T, 1, denied(0, 333_334, 2_333_334)),
        check(T + 333_333, 1, denied(0, 1, 2_000_001)),
        check(T + 333_334, 1, allowed(0, 2_333_333, 2_000_000)),
        case="C15",
    ),
    trace(
        "leaky-own-wait-is-rational",
        leaky(7, MIN, 5),
        "Five sevenths of a minute: 42,857,142 6/7 us, not rounded.",
        burst(T, 6, 6, allowed(0, 51_428_572, 42_857_143)),
        check(T, 1, denied(0, 8_571_429, 51_428_572)),
        probe(T + 1, 1, retry=8_571_428),
        case="C15",
    ),
    trace(
        "leaky-polled",
        TEN,
        "Asked each 10 ms for 100 s: 51, then one each 100 ms.",
        poll(T, 10_000, 10 * MS, 1_050, says("denied", retry_after_us=10 * MS)),
        case="C15",
    ),
    trace(
        "leaky-thirds-polled",
        leaky(3, S, 2),
        "3/s, asked each millisecond for 20 s: 2 in the queue, 61 that left.",
        poll(T, 20_001, MS, 63, says("allowed")),
        case="C15",
    ),
    trace(
        "leaky-exact-rate",
        SMALL,
        "One a second at exactly one a second: none waits, none is refused.",
        poll(T, 1_000, S, 1_000, allowed(0, S, 0)),
        case="C2",
    ),
    trace(
        "leaky-faster-than-it-leaks",
        leaky(10, S, 5),
        "12/s against 10/s: the queue fills, then one of six is refused.",
        poll(T, 1_200, 83_334, 1_005, says("allowed")),
        case="C28",
    ),
    trace(
        "leaky-burst-of-five",
        leaky(10, S, 50, 5),
        "burst 5: five at once, the sixth after 100 ms.",
        burst(T, 5, 5, allowed(0, 500 * MS, 0)),
        check(T, 1, allowed(0, 600 * MS, 100 * MS)),
        burst(T, 49, 49, allowed(0, 5_500 * MS, 5 * S)),
        check(T, 1, denied(0, 100 * MS, 5_500 * MS)),
        check(T + 5_300 * MS, 3, allowed(0, 500 * MS, 0)),
    ),
    trace(
        "leaky-costs",
        leaky(10, S, 50, 5),
        "Costs up to the burst; their place in the queue is as wide as they are.",
        check(T, 3, allowed(2, 300 * MS, 0)),
        check(T, 4, allowed(0, 700 * MS, 200 * MS)),
        check(T, 5, allowed(0, 1_200 * MS, 700 * MS)),
        check(T, 6, never(0, 1_200 * MS)),
        check(T, 1, allowed(0, 1_300 * MS, 800 * MS)),
        burst(T, 8, 8, allowed(0, 5_300 * MS, 4_800 * MS), cost=5),
        check(T, 3, denied(0, 100 * MS, 5_300 * MS)),
        check(T, 2, allowed(0, 5_500 * MS, 5 * S)),
        probe(T, 5, retry=500 * MS),
        case="C10 C11",
    ),
    trace(
        "leaky-cost-above-one-without-burst",
        TEN,
        "Without a burst the capacity is 1: cost 2 can never pass, however long the queue.",
        check(T, 2, never(1, 0)),
        check(T, 1, allowed(0, 100 * MS, 0)),
        check(T, 2, never(0, 100 * MS)),
        check(T, 2, never(0, 100 * MS), wait=H),
        check(T, 1, allowed(0, 200 * MS, 100 * MS)),
        case="C6 C7",
    ),
    trace(
        "leaky-refused-costs-nothing",
        leaky(10, S, 5, 10),
        "8 of 10 and the queue: what does not fit takes nothing.",
        check(T, 8, allowed(2, 800 * MS, 0)),
        check(T, 8, denied(2, 100 * MS, 800 * MS)),
        burst(T, 100, 0, denied(2, 300 * MS, 800 * MS), cost=10),
        check(T, 7, allowed(0, 1_500 * MS, 500 * MS)),
        check(T, 1, denied(0, 100 * MS, 1_500 * MS)),
        case="C8",
    ),
    trace(
        "leaky-refused-does-not-prolong",
        SMALL,
        "A thousand refused calls change nothing.",
        burst(T, 4, 4, allowed(0, 4 * S, 3 * S)),
        poll(T, 1_000, 999, 0, says("denied")),
        check(T + S, 1, allowed(0, 4 * S, 3 * S)),
        case="C12 C28",
    ),
    trace(
        "leaky-max-wait",
        TEN,
        "A caller may be less patient than the queue, not more.",
        check(T, 1, allowed(0, 100 * MS, 0), wait=50 * MS),
        check(T, 1, denied(0, 50 * MS, 100 * MS), wait=50 * MS),
        check(T, 1, allowed(0, 200 * MS, 100 * MS), wait=100 * MS),
        burst(T, 49, 49, allowed(0, 5_100 * MS, 5 * S), wait=H),
        check(T, 1, denied(0, 100 * MS, 5_100 * MS), wait=H),
        check(T, 1, denied(0, 100 * MS, 5_100 * MS)),
        check(T, 1, denied(0, 5_100 * MS - 1, 5_100 * MS), wait=1),
    ),
    trace(
        "leaky-no-wait",
        TEN,
        "-1: not even as long as the queue.",
        check(T, 1, allowed(0, 100 * MS, 0), wait=-1),
        check(T, 1, denied(0, 100 * MS, 100 * MS), wait=-1),
        check(T, 1, allowed(0, 200 * MS, 100 * MS)),
        check(T, 1, denied(0, 200 * MS, 200 * MS), wait=-1),
        check(T + 200 * MS - 1, 1, denied(0, 1, 1), wait=-1),
        check(T + 200 * MS, 1, allowed(0, 100 * MS, 0), wait=-1),
    ),
    trace(
        "plain-no-wait",
        bucket(2, S),
        "-1 under a plain bucket is the same as 0.",
        check(T, 2, allowed(0, S), wait=-1),
        check(T, 1, denied(0, 500 * MS, S), wait=-1),
        check(T, 1, denied(0, 500 * MS, S)),
        check(T, 1, allowed(0, 1_500 * MS, 500 * MS), wait=500 * MS),
    ),
    trace(
        "leaky-max-wait-at-the-boundary",
        leaky(4, S, 8, 4),
        "Enough to the microsecond, or not.",
        check(T, 4, allowed(0, S, 0)),
        check(T, 3, denied(0, 1, S), wait=749_999),
        check(T, 3, allowed(0, 1_750 * MS, 750 * MS), wait=750_000),
        check(T, 4, allowed(0, 2_750 * MS, 1_750 * MS), wait=1_750_000),
        check(T, 2, denied(0, 250 * MS, 2_750 * MS), wait=2_250_000),
    ),
    trace(
        "leaky-max-wait-longer-than-the-queue",
        leaky(1, S, 1),
        "A wait of days does not make the queue longer.",
        check(T, 1, allowed(0, S, 0), wait=D),
        check(T, 1, allowed(0, 2 * S, S), wait=D),
        check(T, 1, denied(0, S, 2 * S), wait=D),
        check(T, 1, denied(0, S, 2 * S), wait=2**53 - 1),
    ),
    trace(
        "leaky-peek",
        SMALL,
        "Peek tells the delay and reserves nothing.",
        peek(T, 1, allowed(1, 0, 0)),
        check(T, 1, allowed(0, S, 0)),
        peek(T, 1, allowed(0, S, S)),
        peek(T, 1, allowed(0, S, S)),
        burst(T, 3, 3, allowed(0, 4 * S, 3 * S)),
        peek(T, 1, denied(0, S, 4 * S)),
        peek(T, 2, never(0, 4 * S)),
        peek(T + 500 * MS, 1, denied(0, 500 * MS, 3_500 * MS)),
        peek(T + S, 1, allowed(0, 3 * S, 3 * S)),
    ),
    trace(
        "leaky-cost-zero",
        SMALL,
        "Cost 0 passes at once, whatever the debt, and takes no place.",
        check(T, 0, allowed(1, 0, 0)),
        burst(T, 4, 4, allowed(0, 4 * S, 3 * S)),
        check(T, 0, allowed(0, 4 * S, 0)),
        peek(T, 0, allowed(0, 4 * S, 0)),
        check(T + S, 1, allowed(0, 4 * S, 3 * S)),
        case="C40",
    ),
    trace(
        "leaky-reset",
        SMALL,
        "A reset empties the queue; those told to wait are not told anything else.",
        burst(T, 4, 4, allowed(0, 4 * S, 3 * S)),
        reset(T + 1, given(1, 0)),
        check(T + 1, 1, allowed(0, S, 0)),
        check(T + 1, 1, allowed(0, 2 * S, S)),
        case="C38",
    ),
    trace(
        "leaky-keys-apart",
        SMALL,
        "Each key has its own queue.",
        burst(T, 4, 4, allowed(0, 4 * S, 3 * S), key="a"),
        check(T, 1, denied(0, S, 4 * S), key="a"),
        check(T, 1, allowed(0, S, 0), key="b"),
        check(T, 1, allowed(0, S, 0), key=""),
        case="C35",
    ),
    trace(
        "leaky-clock-back",
        SMALL,
        "Back by ten seconds: nothing for those who come, until the step and the queue have"
        " passed.",
        check(T + 10 * S, 1, allowed(0, S, 0)),
        check(T, 1, denied(0, 8 * S, 11 * S)),
        check(T + 8 * S, 1, allowed(0, 4 * S, 3 * S)),
        check(T + 8 * S, 1, denied(0, 1 * S, 4 * S)),
        check(T + 10 * S, 1, allowed(0, 3 * S, 2 * S)),
        case="C23",
    ),
    trace(
        "leaky-longest-queue",
        leaky(1, D, 13_031),
        "13,031 days are just within 2^50 us.",
        check(T, 1, allowed(0, D, 0)),
        check(T, 1, allowed(0, 2 * D, D)),
        check(T, 1, denied(0, 2 * D, 2 * D), wait=-1),
        check(T + YEAR, 1, allowed(0, D, 0)),
        case="C18 C39",
    ),
    trace(
        "leaky-huge-queue",
        leaky(8, 1, 2**53 - 1),
        "The longest count: 2^53 - 1 at eight a microsecond take 2^50 us less an eighth.",
        check(T, 1, allowed(0, 1, 0)),
        check(T, 1, allowed(0, 1, 1)),
        burst(T, 7, 7, allowed(0, 2, 1)),
        case="C18",
    ),
    trace(
        "leaky-queue-shortened",
        TEN,
        "50 to 5 while 20 wait: those keep their place; others are refused until 5 wait.",
        burst(T, 21, 21, allowed(0, 2_100 * MS, 2 * S)),
        change(T, leaky(10, S, 5)),
        check(T, 1, denied(0, 1_600 * MS, 2_100 * MS)),
        probe(T + S, 1, retry=600 * MS),
        change(T + 2 * S, TEN),
        check(T + 2 * S, 1, says("allowed", delay_us=200 * MS)),
        case="C159",
    ),
    trace(
        "leaky-from-a-plain-bucket",
        bucket(10, S),
        "A plain bucket becomes a queue: the instant stays, and with it what was used.",
        check(T, 10, allowed(0, S)),
        change(T, TEN),
        check(T, 1, allowed(0, 1_100 * MS, 1 * S)),
        change(T, bucket(10, S)),
        check(T, 1, denied(0, 200 * MS, 1_100 * MS)),
        case="C159",
    ),
    trace(
        "leaky-limit-zero",
        leaky(10, S, 50, 0),
        "burst 0 refuses everything, queue or not.",
        check(T, 1, never(0, 0)),
        check(T, 0, never(0, 0)),
        peek(T, 1, never(0, 0)),
        case="C21",
    ),
    *[
        trace(
            f"leaky-walk-{name}",
            rule,
            f"A random walk under {rule.text}.",
            walk(number, int(rule.rules[0]["capacity"]), unit),
            case="C10 C17 C26",
        )
        for number, (name, rule, unit) in enumerate(WALKS)
    ],
]
