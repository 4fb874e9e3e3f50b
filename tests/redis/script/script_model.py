"""What the script must answer and leave behind, slow and meant to be obviously right.

Times are integer microseconds. A store is a dict of states by key:
    Bucket(instant, n)   the instant at which the bucket is full, a Fraction
    Window(end, count)   fixed window, calendar
    Sliding(end, previous, current)
    Log({t: cost})
    Leases([[expiry, cost, id], ...])
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor
from typing import Union

MAX_COUNT = 2**53 - 1
MAX_SLIDING = 2**32 - 1
MAX_RECORD = 65535


@dataclass
class Bucket:
    instant: Fraction
    n: int

    def under(self, n: int) -> Fraction:
        """A remainder that counts in other units is rounded up."""
        return self.instant if n == self.n else Fraction(ceil(self.instant))

    def stored(self) -> bytes:
        q = floor(self.instant)
        r = int((self.instant - q) * self.n)
        return b"%d %d %d" % (q, r, self.n) if r else b"%d" % q


@dataclass
class Window:
    end: int
    count: int

    def stored(self) -> bytes:
        return b"%d %d" % (self.end, self.count)


@dataclass
class Sliding:
    end: int
    previous: int
    current: int

    def stored(self) -> bytes:
        return b"%d %d %d" % (self.end, self.previous, self.current)

    def rolled(self, now: int, period: int) -> Sliding:
        if now < self.end:
            return self
        if now < self.end + period:
            return Sliding(self.end + period, self.current, 0)
        return Sliding(now - now % period + period, 0, 0)


@dataclass
class Log:
    costs: dict[int, int] = field(default_factory=dict)

    def stored(self) -> bytes:
        head = b"L" + (max(self.costs)).to_bytes(7, "big")
        records = []
        for t in sorted(self.costs):
            left = self.costs[t]
            while left > 0:
                records.append(struct.pack(">Q", t)[2:] + struct.pack(">H", min(left, MAX_RECORD)))
                left -= min(left, MAX_RECORD)
        return head + sum(self.costs.values()).to_bytes(6, "big") + b"".join(records)

    def live(self, now: int, period: int) -> Log:
        return Log({t: cost for t, cost in self.costs.items() if t + period > now})

    def reply(self, period: int) -> list[int]:
        return [sum(self.costs.values()), max(self.costs) + period] if self.costs else [0, 0]


@dataclass
class Leases:
    leases: list[tuple[int, int, bytes]] = field(default_factory=list)

    def stored(self) -> bytes:
        expiries = [expiry for expiry, _, _ in self.leases]
        head = b"N" + max(expiries).to_bytes(7, "big") + self.total().to_bytes(6, "big")
        return head + b"".join(
            struct.pack(">Q", expiry)[2:] + struct.pack(">H", cost) + lease
            for expiry, cost, lease in self.leases
        )

    def total(self) -> int:
        return sum(cost for _, cost, _ in self.leases)

    def live(self, now: int) -> Leases:
        return Leases([lease for lease in self.leases if lease[0] > now])

    def put(self, expiry: int, cost: int, lease: bytes) -> None:
        """Not further before the last than 2^48: only a clock that went years back comes there."""
        expiry = max([expiry, *(other - 2**48 + 1 for other, _, _ in self.leases)])
        self.leases.append((expiry, cost, lease))
        self.leases.sort(key=lambda entry: entry[0])  # keeps the order of equal ones

    def reply(self) -> list[int]:
        return [self.total(), self.leases[-1][0]] if self.leases else [0, 0]


State = Union[Bucket, Window, Sliding, Log, Leases]


def split(value: Fraction, n: int) -> list[int]:
    q = floor(value)
    return [q, int((value - q) * n)]


class Model:
    def __init__(self) -> None:
        self.states: dict[str, State] = {}

    # Single token buckets. n is 1 for the small letters.

    def check(self, now: int, key: str, peek: bool, n: int, inc: Fraction, bound: Fraction):
        over, state = self._ask_bucket(now, key, n, inc, bound)
        if over <= 0 and not peek:
            self.states[key] = state
        return split(over, n) if n > 1 else [int(over)]

    def refund(self, now: int, key: str, n: int, inc: Fraction, ticket: Fraction, reserved: bool):
        done, left = self._adjust_bucket(now, key, n, inc, ticket, reserved, False)
        return [done, *(split(left, n) if n > 1 else [int(left)])]

    def reset(self, key: str):
        self.states.pop(key, None)
        return [0]

    # Groups: entries are (letter, arguments...), each with its key.

    def ask(self, now: int, write: bool, entries: list[tuple], keys: list[str]):
        fits, items, charged = True, [], {}
        for entry, key in zip(entries, keys):
            entry_fits, reply, state = self._ask_entry(now, key, *entry)
            fits = fits and entry_fits
            items += reply
            if state is not None:
                charged[key] = state
        if fits and write:
            self.states.update(charged)
        return [int(fits), *items]

    def adjust(self, now: int, entries: list[tuple], keys: list[str]):
        items = []
        for (kind, *args), key in zip(entries, keys):
            items += getattr(self, "_adjust_" + kind)(now, key, *args)
        return items

    # One entry: whether it fits, its reply, and the state after its charge (None: unchanged).

    def _ask_entry(self, now: int, key: str, kind: str, *args):
        return getattr(self, "_ask_" + kind)(now, key, *args)

    def _ask_bucket(self, now: int, key: str, n: int, inc: Fraction, bound: Fraction):
        state = self.states.get(key)
        full_at = max(Fraction(now), state.under(n)) if state else Fraction(now)
        return full_at + inc - bound - now, Bucket(full_at + inc, n)

    def _ask_b(self, now, key, n, inc, bound):
        over, state = self._ask_bucket(now, key, n, inc, bound)
        return over <= 0 or inc == 0, split(over, n), state if inc > 0 else None

    def _ask_f(self, now, key, cost, limit, period):
        return self._ask_window(now, key, cost, limit, now - now % period + period)

    def _ask_c(self, now, key, cost, limit, edges):
        fresh_end = next(end for start, end in zip(edges, edges[1:]) if start <= now < end)
        return self._ask_window(now, key, cost, limit, fresh_end)

    def _ask_window(self, now, key, cost, limit, fresh_end):
        state = self.states.get(key)
        if state is None or state.end <= now:
            state = Window(fresh_end, 0)
        fits = cost == 0 or state.count + cost <= limit
        reply = [state.end, state.count]
        return fits, reply, Window(state.end, state.count + cost) if cost else None

    def _ask_w(self, now, key, cost, limit, period):
        state = self.states.get(key, Sliding(0, 0, 0)).rolled(now, period)
        x = min(state.end - now, period)
        weighted = ceil(Fraction(state.previous * x, period))
        fits = cost == 0 or weighted + state.current + cost <= limit
        reply = [state.end, state.previous, state.current]
        charged = Sliding(state.end, state.previous, state.current + cost)
        return fits, reply, charged if cost else None

    def _ask_l(self, now, key, cost, limit, period):
        whole = self.states.get(key, Log())
        live = whole.live(now, period)
        used = sum(live.costs.values())
        fits, passes_at = cost == 0 or used + cost <= limit, 0
        if not fits:
            need = used + cost - limit
            for t in sorted(live.costs):
                if need > 0:
                    need, passes_at = need - live.costs[t], t + period
        reply = [*live.reply(period), passes_at]
        if not fits or not cost:
            return fits, reply, None
        t = max([now, *live.costs])
        return fits, reply, Log({**live.costs, t: live.costs.get(t, 0) + cost})

    def _ask_n(self, now, key, cost, limit, ttl, lease):
        live = self.states.get(key, Leases()).live(now)
        fits, passes_at = cost == 0 or live.total() + cost <= limit, 0
        if not fits:
            need = live.total() + cost - limit
            for expiry, held, _ in live.leases:
                if need > 0:
                    need, passes_at = need - held, expiry
        reply = [*live.reply(), passes_at]
        if not fits or not cost:
            return fits, reply, None
        live.put(now + ttl, cost, lease)
        return fits, reply, live

    # One adjustment: done, then the state's reply.

    def _adjust_bucket(self, now, key, n, inc, ticket, reserved, up):
        """Whether it was done, and full_at - now afterwards."""
        state = self.states.get(key)
        if state is None or state.under(n) <= now:
            return 0, Fraction(0)
        full_at = state.under(n)
        done = 0
        if up:
            add = min(inc, ticket + inc - now)
            if add > 0:
                done, full_at = 1, min(full_at + add, max(full_at, Fraction(now + 2**50)))
        else:
            give = min(inc, ticket - now)
            if give > 0 and (not reserved or ticket == full_at):
                done, full_at = 1, max(Fraction(now), full_at - give)
        if done and full_at != state.under(n):
            self.states[key] = Bucket(full_at, n)
        return done, full_at - now

    def _adjust_b(self, now, key, n, inc, ticket, reserved, up):
        done, left = self._adjust_bucket(now, key, n, inc, ticket, reserved, up)
        return [done, *split(left, n)]

    def _adjust_f(self, now, key, delta, end):
        state = self.states.get(key)
        if state is None or state.end <= now:
            return [0, 0, 0]
        if state.end != end:
            return [0, state.end, state.count]
        count = min(max(state.count + delta, 0), MAX_COUNT)
        self._keep(key, Window(end, count), count > 0)
        return [1, end, count]

    _adjust_c = _adjust_f

    def _adjust_w(self, now, key, delta, end, period):
        stored = self.states.get(key, Sliding(0, 0, 0))
        state = stored.rolled(now, period)
        previous, current, done = state.previous, state.current, 0
        if previous > 0 or current > 0:
            if state.end == end:
                done, current = 1, min(max(current + delta, 0), MAX_SLIDING)
            elif state.end - period == end and previous > 0:
                done, previous = 1, min(max(previous + delta, 0), MAX_SLIDING)
        if (previous, current) != (state.previous, state.current):
            self._keep(key, Sliding(state.end, previous, current), previous > 0 or current > 0)
        return [done, state.end, previous, current]

    def _adjust_l(self, now, key, delta, t, period):
        live = self.states.get(key, Log()).live(now, period)
        if t not in live.costs:
            return [0, *live.reply(period), 0]
        others = sum(live.costs.values()) - live.costs[t]
        cost = min(max(live.costs[t] + delta, 0), MAX_SLIDING - others)
        if cost != live.costs[t]:
            live.costs[t] = cost
            if cost == 0:
                del live.costs[t]
            self._keep(key, live, bool(live.costs))
        return [1, *live.reply(period), 0]

    def _adjust_n(self, now, key, delta, lease):
        live = self.states.get(key, Leases()).live(now)
        at = next((i for i, entry in enumerate(live.leases) if entry[2] == lease), None)
        if at is None:
            return [0, *live.reply(), 0]
        expiry, old, _ = live.leases[at]
        cost = min(max(old + delta, 0), MAX_RECORD)
        if cost != old:
            live.leases[at] = (expiry, cost, lease)
            if cost == 0:
                del live.leases[at]
            self._keep(key, live, bool(live.leases))
        return [1, *live.reply(), 0]

    def _adjust_m(self, now, key, ttl, lease):
        live = self.states.get(key, Leases()).live(now)
        at = next((i for i, entry in enumerate(live.leases) if entry[2] == lease), None)
        if at is None:
            return [0, *live.reply(), 0]
        expiry, cost, _ = live.leases[at]
        if expiry != now + ttl:
            del live.leases[at]
            live.put(now + ttl, cost, lease)
            self.states[key] = live
        return [1, *live.reply(), 0]

    def _keep(self, key: str, state: State, something: bool) -> None:
        if something:
            self.states[key] = state
        else:
            self.states.pop(key, None)
