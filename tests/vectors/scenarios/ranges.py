"""Rules at the very edges of what is accepted. One notch outside is in policies.json."""

from .dsl import (
    YEAR,
    D,
    H,
    S,
    Scenario,
    allowed,
    burst,
    check,
    denied,
    never,
    peek,
    poll,
    refund,
    trace,
)

P_MAX, N_MAX, C_MAX, NOW_MAX = 2**50, 2**32 - 1, 2**53 - 1, 2**52


def idle(name: str, rule: tuple[int, int, int], span: int, comment: str) -> Scenario:
    """Empty the bucket, then let 12 h, 1 y and 100 y pass: full, and never more than full."""
    capacity, (year, century) = rule[0], (YEAR, 100 * YEAR)
    return trace(
        name,
        rule,
        comment,
        check(0, capacity, allowed(0, span)),
        check(0, capacity, denied(0, span, span)),
        peek(12 * H, 0, None),
        peek(year, 0, None),
        check(century, capacity, allowed(0, span)),
        check(century, capacity, denied(0, span, span)),
        check(century + span, capacity, allowed(0, span)),
        case="C18",
    )


SCENARIOS = [
    idle("longest-period", (1, 1, P_MAX), P_MAX, "One token in 2^50 us, 35.7 years."),
    idle(
        "longest-span",
        (2**20, 2**20 - 1, (2**20 - 1) * 2**30),
        P_MAX,
        "2^20 tokens, 2^30 us each: 2^50 us to fill.",
    ),
    idle("most-tokens", (N_MAX, N_MAX, 1), 1, "2^32 - 1 tokens each microsecond."),
    idle(
        "largest-capacity-slow",
        (C_MAX, 9, 1),
        (C_MAX + 8) // 9,
        "2^53 - 1 tokens, 9 per us: 31.7 years.",
    ),
    idle(
        "largest-numerator-and-period",
        (N_MAX, N_MAX, P_MAX),
        P_MAX,
        "2^32 - 1 tokens per 2^50 us: remainders up to 2^32 - 2.",
    ),
    trace(
        "largest-numerator-token-by-token",
        (N_MAX, N_MAX, P_MAX),
        "A token each 262,144 and 262,144/(2^32 - 1) us.",
        check(0, 1, allowed(N_MAX - 1, 262_145)),
        check(0, 1, allowed(N_MAX - 2, 524_289)),
        check(0, N_MAX - 2, allowed(0, P_MAX)),
        check(262_144, 1, denied(0, 1, P_MAX - 262_144)),
        check(262_145, 1, allowed(0, P_MAX)),
        case="C11 C18",
    ),
    trace(
        "last-reading-of-the-clock",
        (3, 3, 1_000_000),
        "now = 2^52, the largest reading.",
        burst(NOW_MAX, 4, 3, denied(0, 333_334, S)),
        check(NOW_MAX, 1, allowed(0, 1_333_334, 333_334), wait=S),
        check(NOW_MAX - S, 1, denied(0, 1_666_667, 2_333_334)),
        case="C18 C23",
    ),
    trace(
        "last-reading-with-the-longest-rule",
        (1, 1, P_MAX),
        "The latest instant there can be: 2^52 + 2 x 2^50; and the clock then falls back to 0.",
        check(NOW_MAX, 1, allowed(0, P_MAX)),
        check(NOW_MAX, 1, allowed(0, 2 * P_MAX, P_MAX), wait=P_MAX, id="slot"),
        check(NOW_MAX, 1, denied(0, P_MAX, 2 * P_MAX), wait=P_MAX),
        check(0, 1, denied(0, NOW_MAX + 2 * P_MAX, NOW_MAX + 2 * P_MAX)),
        check(0, 2, never(0, NOW_MAX + 2 * P_MAX)),
        refund(
            0, "slot", {"outcome": "allowed", "remaining": 0, "reset_after_us": NOW_MAX + P_MAX}
        ),
        check(0, 1, denied(0, NOW_MAX, NOW_MAX + P_MAX), wait=P_MAX),
        case="C18 C23",
    ),
    trace(
        "largest-capacity-odd-rate",
        (C_MAX, 4_294_967_291, 1_000_003),
        "2^53 - 1 tokens at a large prime per 1,000,003 us (24.3 days to fill); products of 2^53 x"
        " 2^20.",
        check(0, C_MAX, {"outcome": "allowed", "remaining": 0}),
        check(1_000_003, 4_294_967_291, {"outcome": "allowed", "remaining": 0}),
        check(
            1_000_003, 1, denied_one := {"outcome": "denied", "remaining": 0, "retry_after_us": 1}
        ),
        check(1_000_003 + 500_000, C_MAX // 2, {"outcome": "denied", "remaining": 2_147_477_203}),
        check(1_000_003 + 500_000, 2_147_477_203, {"outcome": "allowed", "remaining": 0}),
        check(1_000_003 + 500_000, 1, denied_one),
        case="C18",
    ),
    trace(
        "smallest-everything",
        (1, 1, 1),
        "One per microsecond, one at a time, from the clock's first microsecond.",
        check(0, 1, allowed(0, 1)),
        check(0, 1, denied(0, 1, 1)),
        poll(1, 1_000, 1, 1_000, allowed(0, 1)),
        check(1_000, 1, allowed(0, 2, 1), wait=1),
        check(1_000, 1, denied(0, 1, 2), wait=1),
    ),
    trace(
        "longest-wait-on-a-fast-rule",
        (1, N_MAX, 1),
        "Capacity 1 refilled 2^32 - 1 times a microsecond, waits of a fraction of a microsecond.",
        check(5, 1, allowed(0, 1)),
        check(5, 1, denied(0, 1, 1)),
        check(5, 1, allowed(0, 1, 1), wait=1),
        check(5, 1, allowed(0, 1, 1), wait=D),
        burst(5, 1_000, 1_000, allowed(0, 1, 1), wait=D),
        case="C18",
    ),
]
