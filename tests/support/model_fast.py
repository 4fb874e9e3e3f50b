"""The reference models again, in machine-sized steps: quick enough for millions of requests.

Written from the rules, with plain integers and closed formulas where the other models search; a
test holds the two together. One rule, many keys, and a clock that does not go back.
Answers are tuples: outcome (1 allowed, 2 denied, 3 never), remaining, retry_after (-1: never),
reset_after, delay. `charge` of a request is what a ticket must remember, or None.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from . import model_calendar
from .model_rules import MAX_COUNT, MAX_LEASES, MAX_SLIDING

Numbers = tuple[int, int, int, int, int]


class Fast:
    """Common to all: what can never be, cost 0, and what peek shares with check."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def check(self, key: int, cost: int, now: int, wait: int) -> tuple[Numbers, Any]:
        limit = self.limit
        if cost > limit or limit == 0:
            remaining, reset = self.describe(key, now)
            return (3, remaining, -1, reset, 0), None
        if cost == 0:
            remaining, reset = self.describe(key, now)
            return (1, remaining, 0, reset, 0), None
        retry, delay = self.judge(key, cost, now, wait)
        if retry:
            remaining, reset = self.describe(key, now)
            return (2, remaining, retry, reset, 0), None
        charge = self.charge(key, cost, now)
        remaining, reset = self.describe(key, now)
        return (1, remaining, 0, reset, delay), charge

    def peek(self, key: int, cost: int, now: int) -> Numbers:
        remaining, reset = self.describe(key, now)
        if cost > self.limit or self.limit == 0:
            return 3, remaining, -1, reset, 0
        retry, delay = self.judge(key, cost, now, 0) if cost else (0, 0)
        return (2, remaining, retry, reset, 0) if retry else (1, remaining, 0, reset, delay)

    def settle(self, key: int, charge: Any, cost: int, actual: int, now: int) -> Numbers:
        done = cost == actual or self.adjust(key, charge, cost, actual - cost, now)
        remaining, reset = self.describe(key, now)
        return 1 if done else 2, remaining, 0, reset, 0

    def judge(self, key: int, cost: int, now: int, wait: int) -> tuple[int, int]:
        raise NotImplementedError

    def charge(self, key: int, cost: int, now: int) -> Any:
        raise NotImplementedError

    def describe(self, key: int, now: int) -> tuple[int, int]:
        raise NotImplementedError

    def adjust(self, key: int, charge: Any, cost: int, delta: int, now: int) -> bool:
        raise NotImplementedError

    def forget(self, key: int) -> None:
        raise NotImplementedError


class FastBucket(Fast):
    """Instants in units of 1/N microseconds."""

    def __init__(self, capacity: int, tokens: int, period: int, queue: int | None) -> None:
        super().__init__(capacity)
        self.n, self.p = tokens, period
        self.span = capacity * period
        self.own = None if queue is None else queue * period
        self.full: dict[int, int] = {}

    def judge(self, key: int, cost: int, now: int, wait: int) -> tuple[int, int]:
        at = now * self.n
        bound = wait * self.n if wait > 0 else 0
        if self.own is not None and wait >= 0:
            bound = min(bound, self.own) if wait > 0 else self.own
        early = max(self.full.get(key, 0), at) + cost * self.p - self.span - at
        if early > bound:
            return -((bound - early) // self.n), 0
        return 0, -(-early // self.n) if early > 0 else 0

    def charge(self, key: int, cost: int, now: int) -> tuple[int, bool]:
        at = now * self.n
        new = max(self.full.get(key, 0), at) + cost * self.p
        self.full[key] = new
        return new, new - self.span > at

    def describe(self, key: int, now: int) -> tuple[int, int]:
        missing = self.full.get(key, 0) - now * self.n
        if missing <= 0:
            return self.limit, 0
        return max(0, self.limit - -(-missing // self.p)), -(-missing // self.n)

    def adjust(self, key: int, charge: tuple[int, bool], cost: int, delta: int, now: int) -> bool:
        at, full, (ticket, reserved) = now * self.n, self.full.get(key, 0), charge
        if full <= at:
            return False
        if delta < 0:
            give = min(-delta * self.p, ticket - at)
            if give <= 0 or (reserved and full != ticket):
                return False
            self.full[key] = max(at, full - give)
            return True
        add = min(delta * self.p, ticket + delta * self.p - at)
        if add <= 0:
            return False
        self.full[key] = min(full + add, max(full, at + 2**50 * self.n))
        return True

    def forget(self, key: int) -> None:
        self.full.pop(key, None)


class FastWindow(Fast):
    def __init__(self, limit: int, period: int) -> None:
        super().__init__(limit)
        self.period = period
        self.windows: dict[int, list[int]] = {}  # end, count

    def end(self, now: int) -> int:
        return now - now % self.period + self.period

    def judge(self, key: int, cost: int, now: int, wait: int) -> tuple[int, int]:
        window = self.windows.get(key)
        if window is None or window[0] <= now or window[1] + cost <= self.limit:
            return 0, 0
        return window[0] - now, 0

    def charge(self, key: int, cost: int, now: int) -> int:
        window = self.windows.get(key)
        if window is None or window[0] <= now:
            self.windows[key] = window = [self.end(now), 0]
        window[1] += cost
        return window[0]

    def describe(self, key: int, now: int) -> tuple[int, int]:
        window = self.windows.get(key)
        if window is None or window[0] <= now or window[1] == 0:
            return self.limit, 0
        return max(0, self.limit - window[1]), window[0] - now

    def adjust(self, key: int, charge: int, cost: int, delta: int, now: int) -> bool:
        window = self.windows.get(key)
        if window is None or window[0] <= now or window[0] != charge or window[1] == 0:
            return False
        window[1] = min(max(window[1] + delta, 0), MAX_COUNT)
        return True

    def forget(self, key: int) -> None:
        self.windows.pop(key, None)


class FastCalendar(FastWindow):
    def __init__(self, limit: int, unit: str, anchor: int, zone: str) -> None:
        super().__init__(limit, 0)
        self.names = unit, anchor, zone
        self.known = (0, 0)

    def end(self, now: int) -> int:
        if not self.known[0] <= now < self.known[1]:
            self.known = model_calendar.window(*self.names, now)
        return self.known[1]


class FastSliding(Fast):
    def __init__(self, limit: int, period: int) -> None:
        super().__init__(limit)
        self.period = period
        self.pairs: dict[int, tuple[int, int, int]] = {}  # end, previous, current

    def rolled(self, key: int, now: int) -> tuple[int, int, int]:
        pair = self.pairs.get(key)
        if pair is not None:
            end, _, current = pair
            if now < end:
                return pair
            if now < end + self.period:
                return end + self.period, current, 0
        return now - now % self.period + self.period, 0, 0

    def judge(self, key: int, cost: int, now: int, wait: int) -> tuple[int, int]:
        end, previous, current = self.rolled(key, now)
        period, room = self.period, self.limit - cost
        left = room - current
        if left >= 0:
            # previous * x <= left * period, x the time to the end
            if previous * (end - now) <= left * period:
                return 0, 0
            return end - left * period // previous - now, 0
        # In the next window: current * x <= room * period. More than the limit is possible there
        # (a debt), so that no x of the next window may do.
        return end + period - min(period, room * period // current) - now, 0

    def charge(self, key: int, cost: int, now: int) -> int:
        end, previous, current = self.rolled(key, now)
        self.pairs[key] = end, previous, current + cost
        return end

    def describe(self, key: int, now: int) -> tuple[int, int]:
        end, previous, current = self.rolled(key, now)
        weighted = -(-previous * (end - now) // self.period)
        reset = end + self.period - now if current else end - now if previous else 0
        return max(0, self.limit - weighted - current), reset

    def adjust(self, key: int, charge: int, cost: int, delta: int, now: int) -> bool:
        end, previous, current = self.rolled(key, now)
        if previous == 0 and current == 0:
            return False
        if charge == end:
            self.pairs[key] = end, previous, min(max(current + delta, 0), MAX_SLIDING)
        elif charge == end - self.period and previous > 0:
            self.pairs[key] = end, min(max(previous + delta, 0), MAX_SLIDING), current
        else:
            return False
        return True

    def forget(self, key: int) -> None:
        self.pairs.pop(key, None)


class Log:
    """Costs by instant; the instants in order, some of them perhaps of no cost any more."""

    __slots__ = ("costs", "order", "used")

    def __init__(self) -> None:
        self.costs: dict[int, int] = {}
        self.order: deque[int] = deque()
        self.used = 0


class FastLog(Fast):
    def __init__(self, limit: int, period: int) -> None:
        super().__init__(limit)
        self.period = period
        self.logs: dict[int, Log] = {}

    def log(self, key: int, now: int) -> Log:
        log = self.logs.get(key)
        if log is None:
            log = self.logs[key] = Log()
        order = log.order
        while order and order[0] + self.period <= now:
            log.used -= log.costs.pop(order.popleft(), 0)
        while order and order[-1] not in log.costs:
            order.pop()
        return log

    def judge(self, key: int, cost: int, now: int, wait: int) -> tuple[int, int]:
        log = self.log(key, now)
        over = log.used + cost - self.limit
        if over <= 0:
            return 0, 0
        for instant in log.order:
            over -= log.costs.get(instant, 0)
            if over <= 0:
                return instant + self.period - now, 0
        raise AssertionError

    def charge(self, key: int, cost: int, now: int) -> int:
        log = self.log(key, now)
        if not log.order or log.order[-1] != now:
            log.order.append(now)
        log.costs[now] = log.costs.get(now, 0) + cost
        log.used += cost
        return now

    def describe(self, key: int, now: int) -> tuple[int, int]:
        log = self.log(key, now)
        if log.used == 0:
            return self.limit, 0
        return max(0, self.limit - log.used), log.order[-1] + self.period - now

    def adjust(self, key: int, charge: int, cost: int, delta: int, now: int) -> bool:
        log = self.log(key, now)
        before = log.costs.get(charge)
        if before is None:
            return False
        after = min(max(before + delta, 0), MAX_SLIDING - (log.used - before))
        log.used += after - before
        if after > 0:
            log.costs[charge] = after
        else:
            del log.costs[charge]
        return True

    def forget(self, key: int) -> None:
        self.logs.pop(key, None)


class Lease(NamedTuple):
    expiry: int
    number: int
    cost: int


class FastLeases(Fast):
    def __init__(self, limit: int, ttl: int) -> None:
        super().__init__(limit)
        self.ttl = ttl
        self.held: dict[int, dict[int, Lease]] = {}
        self.numbers = 0

    def live(self, key: int, now: int) -> dict[int, Lease]:
        held = self.held.get(key)
        if held is None:
            held = self.held[key] = {}
        gone = [number for number, lease in held.items() if lease.expiry <= now]
        for number in gone:
            del held[number]
        return held

    def judge(self, key: int, cost: int, now: int, wait: int) -> tuple[int, int]:
        held = self.live(key, now)
        over = sum([lease.cost for lease in held.values()]) + cost - self.limit
        if over <= 0:
            return 0, 0
        for lease in sorted(held.values()):
            over -= lease.cost
            if over <= 0:
                return lease.expiry - now, 0
        raise AssertionError

    def charge(self, key: int, cost: int, now: int) -> int:
        self.numbers += 1
        self.live(key, now)[self.numbers] = Lease(now + self.ttl, self.numbers, cost)
        return self.numbers

    def describe(self, key: int, now: int) -> tuple[int, int]:
        held = self.live(key, now)
        if not held:
            return self.limit, 0
        used = sum([lease.cost for lease in held.values()])
        return max(0, self.limit - used), max([lease.expiry for lease in held.values()]) - now

    def adjust(self, key: int, charge: int, cost: int, delta: int, now: int) -> bool:
        held = self.live(key, now)
        lease = held.get(charge)
        if lease is None:
            return False
        after = min(max(lease.cost + delta, 0), MAX_LEASES)
        if after > 0:
            held[charge] = lease._replace(cost=after)
        else:
            del held[charge]
        return True

    def renew(self, key: int, charge: int, now: int) -> Numbers:
        held = self.live(key, now)
        done = charge in held
        if done:
            held[charge] = held[charge]._replace(expiry=now + self.ttl)
        remaining, reset = self.describe(key, now)
        return 1 if done else 2, remaining, 0, reset, 0

    def forget(self, key: int) -> None:
        self.held.pop(key, None)


def make(rule: dict[str, Any]) -> Fast:
    """The quick model of a rule as the vectors tell it."""
    name = rule["algorithm"]
    if name == "token-bucket":
        return FastBucket(rule["capacity"], rule["tokens"], rule["period_us"], rule.get("queue"))
    if name == "fixed-window":
        return FastWindow(rule["limit"], rule["period_us"])
    if name == "sliding-window":
        return FastSliding(rule["limit"], rule["period_us"])
    if name == "calendar":
        return FastCalendar(
            rule["limit"], rule["unit"], rule.get("anchor", 1), rule.get("zone", "UTC")
        )
    if name == "sliding-log":
        return FastLog(rule["limit"], rule["period_us"])
    return FastLeases(rule["limit"], rule["ttl_us"])
