"""What holds of every algorithm that counts, told once for all of them."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .dsl import MS, YEAR, S, Step, burst, check, given, not_given, peek, poll, refund, reset
from .words import Case, Maker, maybe, probe, renew, says, settle, trace

ALLOWED, DENIED, NEVER = says("allowed"), says("denied"), says("never", retry_after_us=None)


@dataclass(frozen=True)
class Kind:
    name: str  # the traces' first word
    make: Maker  # a rule of that limit
    start: int  # soon after a window has begun
    gone: int  # so long after `start` a charge made then counts no more
    window: int  # within `start` + window all is one window
    most: int  # the largest limit
    leases: bool = False
    large: int = 2**31  # the limit of a walk with large costs


def remaining(outcome: str, left: int) -> dict[str, object]:
    return says(outcome, remaining=left)


def family(kind: Kind) -> list[Case]:
    return [*_decisions(kind), *_edges(kind), *_tickets(kind), *_walks(kind)]


def _decisions(kind: Kind) -> list[Case]:
    t, ten, name = kind.start, kind.make(10), kind.name
    return [
        trace(
            f"{name}-above-the-limit",
            ten,
            "A cost above the limit can never pass, whatever is used; nothing changes.",
            check(t, 11, says("never", remaining=10, reset_after_us=0)),
            check(t, 5, remaining("allowed", 5)),
            check(t, 100, remaining("never", 5)),
            peek(t, 11, remaining("never", 5)),
            check(t, 11, remaining("never", 5), wait=S),
            check(t, 5, remaining("allowed", 0)),
            check(t, 2**53 - 1, remaining("never", 0)),
            check(t, 10, remaining("denied", 0)),
            case="C6 C7",
        ),
        trace(
            f"{name}-refused-costs-nothing",
            ten,
            "8 of 10; 5 more are refused and take nothing; then 1 passes.",
            check(t, 8, remaining("allowed", 2)),
            check(t, 5, remaining("denied", 2)),
            check(t, 1, remaining("allowed", 1)),
            burst(t, 100, 0, remaining("denied", 1), cost=2),
            check(t, 1, remaining("allowed", 0)),
            case="C8",
        ),
        trace(
            f"{name}-refused-does-not-prolong",
            ten,
            "A thousand refused calls change neither the wait nor what is there afterwards.",
            check(t, 10, remaining("allowed", 0)),
            poll(t + 1, 1_000, kind.window // 2_000, 0, remaining("denied", 0)),
            check(t + kind.gone, 10, remaining("allowed", 0)),
            case="C12 C28",
        ),
        trace(
            f"{name}-cost-zero",
            ten,
            "Cost 0 passes and writes nothing, also when all is used.",
            check(t, 0, says("allowed", remaining=10, reset_after_us=0)),
            peek(t, 0, remaining("allowed", 10)),
            check(t, 10, remaining("allowed", 0)),
            check(t, 0, remaining("allowed", 0)),
            peek(t + 1, 0, remaining("allowed", 0)),
            check(t + kind.gone, 0, says("allowed", remaining=10, reset_after_us=0)),
            case="C40",
        ),
        trace(
            f"{name}-limit-zero",
            kind.make(0),
            "Limit 0 refuses everything for ever; nothing is stored.",
            check(t, 1, says("never", limit=0, remaining=0, reset_after_us=0)),
            check(t, 0, says("never", remaining=0)),
            peek(t + 1, 1, says("never", remaining=0)),
            reset(t + 2, says("allowed", remaining=0)),
            case="C21",
        ),
        trace(
            f"{name}-limit-one",
            kind.make(1),
            "One at a time.",
            check(t, 1, remaining("allowed", 0)),
            check(t, 1, remaining("denied", 0)),
            check(t, 2, remaining("never", 0)),
            probe(t + 1, 1),
        ),
        trace(
            f"{name}-peek-charges-nothing",
            ten,
            "Peek says what check would say and leaves everything as it is.",
            *[peek(t, 10, says("allowed", remaining=10, reset_after_us=0))] * 3,
            check(t, 4, remaining("allowed", 6)),
            peek(t, 6, remaining("allowed", 6)),
            peek(t, 7, remaining("denied", 6)),
            peek(t, 11, remaining("never", 6)),
            check(t, 6, remaining("allowed", 0)),
            peek(t, 1, remaining("denied", 0)),
        ),
        trace(
            f"{name}-waiting-counts-as-none",
            ten,
            "Only tokens can be reserved: here a wait is taken as none.",
            check(t, 10, remaining("allowed", 0), wait=kind.gone),
            check(t, 1, says("denied", delay_us=0), wait=2 * kind.gone),
            check(t, 1, says("denied", delay_us=0), wait=-1),
            check(t + kind.gone, 1, says("allowed", delay_us=0), wait=-1),
        ),
        trace(
            f"{name}-keys-apart",
            ten,
            "Each key has its own count.",
            check(t, 10, remaining("allowed", 0), key="a"),
            check(t, 10, remaining("allowed", 0), key="b"),
            check(t, 1, remaining("denied", 0), key="a"),
            check(t, 1, remaining("allowed", 9), key=""),
            reset(t + 1, remaining("allowed", 10), key="a"),
            check(t + 1, 1, remaining("denied", 0), key="b"),
            check(t + 1, 3, remaining("allowed", 7), key="a"),
            case="C35 C161",
        ),
        trace(
            f"{name}-reset",
            ten,
            "Used up, reset, and all of it is there again.",
            check(t, 10, remaining("allowed", 0)),
            check(t + 1, 1, remaining("denied", 0)),
            reset(t + 2, says("allowed", remaining=10, retry_after_us=0, reset_after_us=0)),
            peek(t + 2, 10, remaining("allowed", 10)),
            burst(t + 3, 10, 10, remaining("allowed", 0)),
            check(t + 3, 1, remaining("denied", 0)),
            reset(t + 4, remaining("allowed", 10)),
            reset(t + 4, remaining("allowed", 10)),
            case="C38",
        ),
    ]


def _edges(kind: Kind) -> list[Case]:
    t, ten, name, most = kind.start, kind.make(10), kind.name, kind.most
    return [
        trace(
            f"{name}-retry-is-exact-{cost}",
            ten,
            f"Cost {cost}: refused a microsecond before the instant told, allowed at it.",
            check(t, 4, remaining("allowed", 6)),
            check(t + kind.window // 4, 5, remaining("allowed", 1)),
            check(t + kind.window // 4 + 1, 1, remaining("allowed", 0)),
            probe(t + kind.window // 3, cost),
            case="C11 C17",
        )
        for cost in (1, 4, 5, 9, 10)
    ] + [
        trace(
            f"{name}-gone-to-the-microsecond",
            ten,
            "All of a full count is there again at one instant and not before.",
            check(t, 10, remaining("allowed", 0)),
            peek(t + kind.gone - 1, 10, says("denied", retry_after_us=1, reset_after_us=1)),
            peek(t + kind.gone, 10, says("allowed", remaining=10, reset_after_us=0)),
            check(t + kind.gone, 10, remaining("allowed", 0)),
            case="C2 C4 C30",
        ),
        trace(
            f"{name}-idle-for-decades",
            ten,
            "After a day, a year, fifty years: as new.",
            check(t, 10, remaining("allowed", 0)),
            peek(t + kind.gone + 12 * 3_600 * S, 1, says("allowed", remaining=10)),
            check(t + kind.gone + YEAR, 3, remaining("allowed", 7)),
            check(t + 4 * kind.gone + 50 * YEAR, 10, remaining("allowed", 0)),
            case="C18 C39 C4",
        ),
        trace(
            f"{name}-largest-limit",
            kind.make(most),
            "The largest limit there is, used at once; one more is refused, one above it is never.",
            check(t, most, remaining("allowed", 0)),
            check(t, 1, remaining("denied", 0)),
            check(t, most, remaining("denied", 0)),
            *([check(t, most + 1, remaining("never", 0))] if most < 2**53 - 1 else []),
            probe(t + 1, 1),
            case="C18 C20",
        ),
        trace(
            f"{name}-largest-limit-in-parts",
            kind.make(most),
            "The same in three parts, and one left over.",
            check(t, most // 2, remaining("allowed", most - most // 2)),
            check(t + 1, most // 2, remaining("allowed", most - 2 * (most // 2))),
            check(t + 2, 2, remaining("denied", most - 2 * (most // 2))),
            check(t + 3, 1, remaining("allowed", 0)),
            probe(t + 4, most),
            case="C18",
        ),
        trace(
            f"{name}-clock-back",
            ten,
            "The clock goes back: what was charged still counts, and nothing comes of it.",
            check(t + 1_000, 4, remaining("allowed", 6)),
            check(t, 4, remaining("allowed", 2)),
            check(t + 500, 3, remaining("denied", 2)),
            check(t, 2, remaining("allowed", 0)),
            check(t + 1_000, 1, remaining("denied", 0)),
            check(t, 1, remaining("denied", 0)),
            probe(t + 2_000, 1),
            case="C23",
        ),
    ]


def _tickets(kind: Kind) -> list[Case]:
    t, ten, name = kind.start, kind.make(10), kind.name
    used = [check(t, 4, remaining("allowed", 6), id="a"), check(t + 1, 6, id="b")]
    return [
        trace(
            f"{name}-refund",
            ten,
            "A charge is given back once.",
            *used,
            check(t + 2, 1, remaining("denied", 0)),
            refund(t + 3, "a", remaining("allowed", 4)),
            refund(t + 3, "a", remaining("denied", 4)),
            check(t + 4, 5, remaining("denied", 4)),
            check(t + 4, 4, remaining("allowed", 0)),
            refund(t + 5, "b", remaining("allowed", 6)),
            check(t + 6, 6, remaining("allowed", 0)),
        ),
        trace(
            f"{name}-refund-everything",
            ten,
            "All given back: as new.",
            *used,
            refund(t + 3, "b", remaining("allowed", 6)),
            refund(t + 4, "a", says("allowed", remaining=10, reset_after_us=0)),
            refund(t + 4, "a", says("denied", remaining=10, reset_after_us=0)),
            check(t + 5, 10, remaining("allowed", 0)),
        ),
        trace(
            f"{name}-refund-late",
            ten,
            "What no longer counts is not given back, to the microsecond.",
            check(t, 4, id="a"),
            check(t, 6, id="b"),
            refund(t + kind.gone - 1, "a", says("allowed", reset_after_us=1)),
            refund(t + kind.gone, "b", not_given(10, 0)),
            refund(t + kind.gone, "b", not_given(10, 0)),
            check(t + kind.gone, 10, remaining("allowed", 0)),
            check(t + kind.gone, 1, remaining("denied", 0)),
            case="C3",
        ),
        trace(
            f"{name}-refund-after-reset",
            ten,
            "After a reset there is nothing to give back; what came after it stays.",
            check(t, 4, id="a"),
            check(t, 2, id="b"),
            reset(t + 1, remaining("allowed", 10)),
            refund(t + 2, "a", not_given(10, 0)),
            check(t + 2, 10, remaining("allowed", 0), id="c"),
            refund(t + 3, "c", given(10, 0)),
            refund(t + 4, "c", not_given(10, 0)),
            case="C3 C38",
        ),
        trace(
            f"{name}-settle-down",
            ten,
            "6 were reserved, 2 were used: 4 are given back.",
            check(t, 6, remaining("allowed", 4), id="a"),
            settle(t + 1, "a", 2, remaining("allowed", 8)),
            settle(t + 1, "a", 2, remaining("denied", 8)),
            refund(t + 1, "a", remaining("denied", 8)),
            check(t + 2, 9, remaining("denied", 8)),
            check(t + 2, 8, remaining("allowed", 0)),
        ),
        trace(
            f"{name}-settle-up",
            ten,
            "2 were reserved, 7 were used: 5 more are charged.",
            check(t, 2, remaining("allowed", 8), id="a"),
            settle(t + 1, "a", 7, says("allowed", remaining=3, retry_after_us=0, delay_us=0)),
            check(t + 2, 4, remaining("denied", 3)),
            check(t + 2, 3, remaining("allowed", 0)),
        ),
        trace(
            f"{name}-settle-above-the-limit",
            ten,
            "More was used than there is: it is a debt, and the wait tells when it is over.",
            check(t, 2, id="a"),
            check(t, 3, id="b"),
            settle(t + 1, "a", 25, remaining("allowed", 0)),
            check(t + 2, 1, remaining("denied", 0)),
            check(t + 2, 0, remaining("allowed", 0)),
            check(t + 2, 11, remaining("never", 0)),
            refund(t + 3, "b", remaining("allowed", 0)),
            probe(t + 4, 1),
        ),
        trace(
            f"{name}-settle-as-charged",
            ten,
            "What was charged was right: allowed, nothing changes, the ticket is spent.",
            check(t, 5, id="a"),
            settle(t + 1, "a", 5, remaining("allowed", 5)),
            settle(t + 2, "a", 4, remaining("denied", 5)),
            refund(t + 2, "a", remaining("denied", 5)),
        ),
        trace(
            f"{name}-settle-to-nothing",
            ten,
            "Settled to 0 is a refund.",
            check(t, 5, id="a"),
            settle(t + 1, "a", 0, says("allowed", remaining=10, reset_after_us=0)),
            refund(t + 1, "a", remaining("denied", 10)),
        ),
        trace(
            f"{name}-settle-late",
            ten,
            "Too late for more or less: nothing is written, no key comes into being.",
            check(t, 5, id="a"),
            check(t, 5, id="b"),
            settle(t + kind.gone, "a", 9, not_given(10, 0)),
            settle(t + kind.gone, "b", 1, not_given(10, 0)),
            check(t + kind.gone, 10, remaining("allowed", 0)),
            case="C3",
        ),
        trace(
            f"{name}-settle-after-reset",
            ten,
            "After a reset nothing is settled.",
            check(t, 5, id="a"),
            check(t, 5, id="b"),
            reset(t + 1, remaining("allowed", 10)),
            settle(t + 2, "a", 9, not_given(10, 0)),
            settle(t + 2, "b", 1, not_given(10, 0)),
        ),
    ]


def _walks(kind: Kind) -> list[Case]:
    """Random walks of all operations; the clock goes back now and then, where it may."""
    limits = (10, 3, 37, kind.large)
    return [
        trace(
            f"{kind.name}-walk-{number}",
            kind.make(limit),
            f"A random walk: limit {limit}.",
            walk(kind, number, limit),
            case="C10 C17 C26",
        )
        for number, limit in enumerate(limits)
    ]


def walk(kind: Kind, seed: int, limit: int, count: int = 150) -> list[Step]:
    draw = random.Random(f"{kind.name}{seed}")
    now, steps = kind.start, []
    for index in range(count):
        if draw.random() < 0.15:
            now -= draw.choice((1, 2, 1_000, kind.window // 20))
        else:
            part = draw.choice((0, 1, 2, 5 * MS, kind.window // 50, kind.window // 9, kind.window))
            now += draw.choice((part, draw.randrange(part + 1)))
        now = max(now, 0)
        kind_of = draw.randrange(100)
        cost = draw.choice((1, 1, 1, 2, 3, limit // 3, limit, draw.randrange(limit + 1), limit + 1))
        key, id = draw.choice(("k", "k", "l")), f"t{max(0, index - draw.randrange(1, 12))}"
        if kind_of < 50:
            steps.append(maybe({**check(now, cost, key=key), "id": f"t{index}"}))
        elif kind_of < 62:
            steps.append(maybe(peek(now, cost, key=key)))
        elif kind_of < 76:
            steps.append(maybe(refund(now, id)))
        elif kind_of < 92 and not (kind.leases and kind_of < 84):
            steps.append(maybe(settle(now, id, draw.choice((0, cost, 2 * cost)))))
        elif kind_of < 97 and kind.leases:
            steps.append(maybe(renew(now, id)))
        elif kind_of < 98:
            steps.append(maybe(reset(now, key=key)))
    return steps
