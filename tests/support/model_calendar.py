"""Days, weeks, months and years of a time zone, from the zone database of the system.

A day begins at the first instant at which the clocks on the wall show it, whatever they show then:
where summer time begins at midnight that is 1 o'clock.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import date, datetime, timedelta, timezone
from functools import cache
from zoneinfo import ZoneInfo

SECOND_US = 1_000_000


def local_date(zone: str, seconds: int) -> date:
    return datetime.fromtimestamp(seconds, timezone.utc).astimezone(ZoneInfo(zone)).date()


@cache
def day_start(zone: str, day: date) -> int:
    """The first second at which it is that day there, or later. Tried hour by hour, then minute by
    minute, then second by second: no zone reaches a day and leaves it again within the hour, since
    2011."""
    utc = datetime(day.year, day.month, day.day, tzinfo=timezone.utc)
    start = int(utc.timestamp()) - 16 * 3600
    for step in (3600, 60, 1):
        while local_date(zone, start + step) < day:
            start += step
    return start + 1


def first_day(unit: str, anchor: int, day: date) -> date:
    """The first day of the week (Monday), month or year that holds the day."""
    if unit == "day":
        return day
    if unit == "week":
        return day - timedelta(days=day.weekday())
    if unit == "year":
        return day.replace(month=1, day=1)
    assert unit == "month"
    begins = month_start(day.year, day.month, anchor)
    if begins <= day:
        return begins
    before = day.replace(day=1) - timedelta(days=1)
    return month_start(before.year, before.month, anchor)


def month_start(year: int, month: int, anchor: int) -> date:
    return date(year, month, min(anchor, monthrange(year, month)[1]))


def next_first_day(unit: str, anchor: int, first: date) -> date:
    """The first day of the one that follows: the next day that begins one."""
    day = first + timedelta(days=1)
    while first_day(unit, anchor, day) == first:
        day += timedelta(days=1)
    return day


@cache
def _window_from(unit: str, anchor: int, zone: str, first: date) -> tuple[int, int]:
    after = next_first_day(unit, anchor, first)
    return day_start(zone, first) * SECOND_US, day_start(zone, after) * SECOND_US


def window(unit: str, anchor: int, zone: str, now: int) -> tuple[int, int]:
    """Begin and end, in microseconds, of the window that holds `now`."""
    first = first_day(unit, anchor, local_date(zone, now // SECOND_US))
    start, end = _window_from(unit, anchor, zone, first)
    while end <= now:  # the wall clock was put back across midnight: this day has been there before
        first = next_first_day(unit, anchor, first)
        start, end = _window_from(unit, anchor, zone, first)
    assert start <= now < end
    return start, end
