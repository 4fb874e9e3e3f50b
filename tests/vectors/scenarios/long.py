"""Whole days of polling, far too many operations for a run over a network. Run in process only."""

from .dsl import EPOCH, MS, H, S, allowed, burst, poll, trace

SCENARIOS = [
    trace(
        "three-per-second-for-a-day",
        "3/s",
        "Emptied, then polled every 28,125 us (odd, so no thirds of seconds are hit) until the same"
        " second of the next day: exactly 259,200.",
        burst(EPOCH, 3, 3),
        poll(EPOCH + 28_125, 3_072_000, 28_125, 259_200, allowed(0, S)),
        case="C15",
    ),
    trace(
        "three-per-second-for-an-hour-at-a-prime-interval",
        "3/s",
        "Every 9,973 us, a prime; the last poll is 6,298 us short of the hour and of its last"
        " third: 10,799.",
        burst(EPOCH, 3, 3),
        poll(EPOCH + 9_973, 360_974, 9_973, 10_799),
        case="C15",
    ),
    trace(
        "seven-per-minute-for-a-week",
        "7/min",
        "Polled each second for a week: 7 x 60 x 24 x 7.",
        burst(EPOCH, 7, 7),
        poll(EPOCH + S, 604_800, S, 70_560),
        case="C15",
    ),
    trace(
        "one-per-year-for-thirty-years",
        "1/365d",
        "Polled each hour for 30 years.",
        burst(EPOCH, 1, 1),
        poll(EPOCH + H, 30 * 365 * 24, H, 30),
        case="C15 C18 C39",
    ),
    trace(
        "prime-rate-in-sevens",
        "1009/997ms",
        "1009 per 997 ms, polled each millisecond for 99.7 s with cost 7: 100,900 tokens are 14,414"
        " sevens.",
        burst(EPOCH, 1, 1, allowed(0, 997 * MS), cost=1009),
        poll(EPOCH + MS, 99_700, MS, 14_414, cost=7),
        case="C15",
    ),
]
