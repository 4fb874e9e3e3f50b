"""Leaky buckets with a queue: places in the queue that are given back or settled."""

from .dsl import EPOCH, MS, S, allowed, check, given, not_given, refund
from .words import leaky, settle, trace

T = EPOCH
SMALL = leaky(1, S, 3)  # one a second, three may wait

SCENARIOS = [
    trace(
        "leaky-refund-of-the-last",
        SMALL,
        "The last in the queue leaves it: its place is free.",
        check(T, 1, allowed(0, 1 * S, 0)),
        check(T, 1, allowed(0, 2 * S, 1 * S), id="b"),
        check(T, 1, allowed(0, 3 * S, 2 * S), id="c"),
        refund(T + 1, "c", given(0, 2 * S - 1)),
        refund(T + 1, "c", not_given(0, 2 * S - 1)),
        refund(T + 2, "b", given(0, 1 * S - 2)),
        check(T + 2, 1, allowed(0, 2 * S - 2, S - 2)),
    ),
    trace(
        "leaky-refund-in-the-middle",
        SMALL,
        "One in the middle leaves: its place is lost, the others keep their spacing.",
        check(T, 1, allowed(0, 1 * S, 0), id="a"),
        check(T, 1, allowed(0, 2 * S, 1 * S), id="b"),
        check(T, 1, allowed(0, 3 * S, 2 * S), id="c"),
        refund(T + 1, "b", not_given(0, 3 * S - 1)),
        refund(T + 1, "b", not_given(0, 3 * S - 1)),
        refund(T + 1, "c", given(0, 2 * S - 1)),
        check(T + 1, 1, allowed(0, 3 * S - 1, 2 * S - 1)),
    ),
    trace(
        "leaky-refund-of-one-that-did-not-wait",
        leaky(1, S, 3, 2),
        "A charge without a delay is given back while others wait: they came later by that much.",
        check(T, 2, allowed(0, 2 * S, 0), id="a"),
        check(T, 1, allowed(0, 3 * S, 1 * S)),
        refund(T + 1, "a", given(1, 1 * S)),
        check(T + 1, 1, allowed(0, 2 * S, 0)),
    ),
    trace(
        "leaky-refund-late",
        SMALL,
        "When its instant has passed there is nothing to give.",
        check(T, 1, allowed(0, 1 * S, 0), id="a"),
        check(T, 1, allowed(0, 2 * S, 1 * S), id="b"),
        refund(T + 1 * S, "a", not_given(0, 1 * S)),
        refund(T + 2 * S - 1, "b", given(1, 0)),
        check(T + 2 * S, 1, allowed(0, 1 * S, 0)),
        case="C3",
    ),
    trace(
        "leaky-refund-too-late",
        SMALL,
        "At the instant itself: nothing.",
        check(T, 1, allowed(0, 1 * S, 0)),
        check(T, 1, allowed(0, 2 * S, 1 * S), id="b"),
        refund(T + 2 * S, "b", not_given(1, 0)),
        case="C3",
    ),
    trace(
        "leaky-settle-of-the-last",
        leaky(10, S, 50, 5),
        "The last reservation shrinks and grows.",
        check(T, 5, allowed(0, 500 * MS, 0)),
        check(T, 4, allowed(0, 900 * MS, 400 * MS), id="b"),
        settle(T, "b", 1, given(0, 600 * MS)),
        check(T, 2, allowed(0, 800 * MS, 300 * MS), id="c"),
        settle(T, "c", 5, given(0, 1_100 * MS)),
    ),
    trace(
        "leaky-settle-in-the-middle",
        leaky(10, S, 50, 5),
        "Down: only the last one. Up: any; those behind keep their place, the next ones wait.",
        check(T, 5, allowed(0, 500 * MS, 0)),
        check(T, 4, allowed(0, 900 * MS, 400 * MS), id="b"),
        check(T, 2, allowed(0, 1_100 * MS, 600 * MS)),
        settle(T, "b", 1, not_given(0, 1_100 * MS)),
        check(T, 1, allowed(0, 1_200 * MS, 700 * MS), id="c"),
        check(T, 1, allowed(0, 1_300 * MS, 800 * MS)),
        settle(T, "c", 3, given(0, 1_500 * MS)),
    ),
]
