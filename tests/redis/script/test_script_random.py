"""Random calls on the script and on its model: equal replies, and equal values in the end."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import pytest
from script_client import Arg, Script
from script_model import Model, split

SECOND = 1_000_000


@dataclass
class Size:
    """How large the numbers of a run are."""

    start: int
    step: int  # between calls, mostly at most
    period: int
    limit: int
    cost: int
    sliding_limit: int
    list_limit: int
    leases: int
    list_period: int


SIZES = {
    "small": Size(10 * SECOND, 200_000, 2 * SECOND, 12, 7, 12, 12, 12, 2 * SECOND),
    "dense": Size(2**48 - 30, 2, 9, 6, 4, 6, 9, 9, 12),
    "usual": Size(
        1_796_036_148 * SECOND, 5 * SECOND, 60 * SECOND, 900, 500, 900, 300, 90, 60 * SECOND
    ),
    "large": Size(2**51, 2**46, 2**50, 2**53 - 1, 2**52, 2**32 - 1, 400_000, 65535, 2**47),
}


class Traffic:
    """Makes groups of requests, each as (keys, arguments, what the model answers)."""

    def __init__(self, seed: int, size: Size) -> None:
        self.random = random.Random(seed)
        self.size = size
        self.model = Model()
        self.now = size.start
        self.tickets: dict[str, list[object]] = {}  # of each key: what was charged, newest last
        self.periods = [max(1, size.period // d) for d in (1, 1, 1, 2)]
        self.list_periods = [max(1, size.list_period // d) for d in (1, 1, 1, 3)]
        self.lease = 0
        self.outcomes: Counter[tuple[str, int]] = Counter()  # how often each was seen

    def count(self, what: str, outcome: int) -> None:
        self.outcomes[what, outcome] += 1

    def move_clock(self) -> None:
        chance = self.random.random()
        if chance < 0.5:
            self.now += self.random.randint(0, self.size.step)
        elif chance < 0.52:
            self.now += self.random.randint(0, self.size.period * 2)
        elif chance < 0.55:
            self.now -= self.random.randint(0, self.size.step)
        self.now = max(0, self.now)
        if self.now > 2**52:
            self.now = self.size.start

    def group(self) -> tuple[list[str], list[Arg], list[object]]:
        choice = self.random.random()
        count = self.random.choice((1, 1, 1, 2, 3))
        if choice < 0.2:
            return self.single(count)
        asks = choice < 0.75
        entry_count = self.random.choice((1, 1, 2, 3, 5))
        kinds = [self.random.choice("bfcwln") for _ in range(entry_count)]
        keys = []
        for _ in range(count):
            chosen: list[str] = []
            for kind in kinds:
                # Those of one 'g' differ.
                free = [k for k in self.keys_of(kind) if not asks or k not in chosen]
                chosen.append(self.random.choice((free[0], self.random.choice(free))))
            keys.append(chosen)
        args: list[Arg]
        answers: list[object] = []
        if asks:
            write = self.random.random() < 0.8
            entries = [self.ask_entry(kind) for kind in kinds]
            args = [count, "g", entry_count, int(write)]
            for entry in entries:
                args += self.written_ask(entry)
            for chosen in keys:
                reply = self.model.ask(self.now, write, entries, chosen)
                answers += reply
                self.count("".join(kinds) if len(kinds) == 1 else "g", reply[0])
                if write and reply[0] == 1:
                    self.remember(entries, chosen, reply)
        else:
            entries = [self.change_entry(kind, key) for kind, key in zip(kinds, keys[0])]
            args = [count, "a", entry_count]
            for entry in entries:
                args += self.written_change(entry)
            for chosen in keys:
                reply = self.model.adjust(self.now, entries, chosen)
                answers += reply
                self.count("a" + entries[0][0], reply[0])
        return [key for chosen in keys for key in chosen], args, answers

    def keys_of(self, kind: str) -> list[str]:
        return [f"{kind}{i}" for i in range(6)]

    def single(self, count: int) -> tuple[list[str], list[Arg], list[object]]:
        op = self.random.choice("ccpfx")
        keys = [self.random.choice(self.keys_of("b")) for _ in range(count)]
        if op == "x":
            keys = [self.random.choice(self.keys_of(self.random.choice("bfcwln"))) for _ in keys]
            return keys, [count, "x"], [item for key in keys for item in self.model.reset(key)]
        n, inc, bound = self.bucket_numbers()
        answers: list[object] = []
        if op in "cp":
            for key in keys:
                answers += self.model.check(self.now, key, op == "p", n, inc, bound)
                state = self.model.states.get(key)
                if state is not None:
                    self.tickets.setdefault(key, []).append((state.instant, inc, n))
            args = [count, op, split(inc, n)[0], split(bound, n)[0]]
            tail = [n, split(inc, n)[1], split(bound, n)[1]]
        else:
            ticket = self.bucket_ticket(keys[0], n)
            reserved = self.random.random() < 0.3
            for key in keys:
                answers += self.model.refund(self.now, key, n, inc, ticket, reserved)
            args = [count, op, split(inc, n)[0], split(ticket, n)[0], int(reserved)]
            tail = [n, split(inc, n)[1], split(ticket, n)[1]]
        if n > 1:
            args = [count, op.upper(), *args[2:], *tail]
        return keys, args, answers

    def bucket_numbers(self) -> tuple[int, Fraction, Fraction]:
        n = self.random.choice((1, 1, 3, 7, 2**32 - 1))
        top = self.size.period * n
        inc = Fraction(self.random.randint(0, top // 3), n)
        bound = Fraction(self.random.randint(top // 2, top), n)
        return n, inc, bound

    def bucket_ticket(self, key: str, n: int) -> Fraction:
        known = self.tickets.get(key)
        if known and self.random.random() < 0.8:
            instant = Fraction(known[-1][0])
            if (instant * n).denominator == 1:
                return instant
            return Fraction(int(instant))
        return Fraction(max(0, self.now + self.random.randint(-self.size.step, self.size.step)))

    def cost(self, most: int) -> int:
        return self.random.choice((0, 1, self.random.randint(1, min(most, self.size.cost))))

    def limit(self, most: int) -> int:
        return most - self.random.choice((0, 0, 0, most // 3))

    def ask_entry(self, kind: str) -> tuple:
        size = self.size
        if kind == "b":
            return (kind, *self.bucket_numbers())
        if kind == "f":
            return (kind, self.cost(size.limit), self.limit(size.limit), self.pick(self.periods))
        if kind == "c":
            length = self.pick(self.periods)
            start = self.now - self.random.randint(0, length - 1)
            before, after = self.random.randint(0, 2), self.random.randint(0, 2)
            edges = [start + i * length for i in range(-before, after + 2)]
            edges = [edge for edge in edges if edge >= 0] if edges[0] < 0 else edges
            if edges[0] > self.now:
                edges.insert(0, 0)
            return (kind, self.cost(size.limit), self.limit(size.limit), edges)
        if kind == "w":
            top = size.sliding_limit
            return (kind, self.cost(top), self.limit(top), self.pick(self.periods))
        if kind == "l":
            top = size.list_limit
            return (kind, self.cost(top), self.limit(top), self.pick(self.list_periods))
        self.lease += 1
        lease = self.lease.to_bytes(8, "little")
        top = size.leases
        return (kind, self.cost(top), self.limit(top), self.pick(self.list_periods), lease)

    def pick(self, values: list[int]) -> int:
        return self.random.choice(values)

    def written_ask(self, entry: tuple) -> list[Arg]:
        kind, *args = entry
        if kind == "b":
            n, inc, bound = args
            return [kind, n, *split(inc, n), *split(bound, n)]
        if kind == "c":
            return [kind, args[0], args[1], len(args[2]) - 1, *args[2]]
        return [kind, *args]

    def remember(self, entries: list[tuple], keys: list[str], reply: list[int]) -> None:
        at = 1
        for (kind, *args), key in zip(entries, keys):
            state = self.model.states.get(key)
            item: object = None
            if kind == "b":
                item = (state.instant, args[1], args[0]) if state else None
            elif kind in "fcw":
                item = reply[at]
            elif kind == "l":
                item = max(state.costs) if state else None
            elif args[0] > 0:
                item = args[3]
            at += 2 if kind in "bfc" else 3
            if item is not None:
                self.tickets.setdefault(key, []).append(item)

    def change_entry(self, kind: str, key: str) -> tuple:
        """Of something that was charged to that key lately, mostly."""
        if kind == "b":
            n, inc, _ = self.bucket_numbers()
            reserved, up = self.random.random() < 0.3, self.random.random() < 0.4
            return (kind, n, inc, self.bucket_ticket(key, n), reserved, up)
        known = self.tickets.get(key, [])[-4:]
        delta = self.random.choice((0, 1, -1, -self.cost(2**53), self.cost(2**53)))
        if kind == "n":
            lease = self.random.choice(known) if known else bytes(8)
            if self.random.random() < 0.4:
                return ("m", self.pick(self.list_periods), lease)
            return (kind, delta, lease)
        instant = self.random.choice(known) if known else self.now
        if kind == "w":
            return (kind, delta, instant, self.pick(self.periods))
        if kind == "l":
            return (kind, delta, instant, self.pick(self.list_periods))
        return (kind, delta, instant)

    def written_change(self, entry: tuple) -> list[Arg]:
        kind, *args = entry
        if kind == "b":
            n, inc, ticket, reserved, up = args
            return [kind, n, *split(inc, n), *split(ticket, n), int(reserved), int(up)]
        return [kind, *args]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SIZES)
def test_answers_as_the_model_does(script: Script, name: str, seed: int) -> None:
    traffic = Traffic(seed, SIZES[name])
    seen = set()
    for call in range(1500):
        traffic.move_clock()
        keys: list[Arg] = []
        args: list[Arg] = []
        expected: list[object] = []
        for _ in range(traffic.random.choice((1, 1, 2, 4))):
            group_keys, group_args, answers = traffic.group()
            keys += group_keys
            args += group_args
            expected += answers
            seen.add(group_args[1])
        assert script(traffic.now, keys, *args) == expected, (call, traffic.now, keys, args)
    assert seen >= set("cpfxgaCPF")
    for what in [*"bfcwlng", *("a" + kind for kind in "bfcwlnm")]:
        for outcome in (0, 1):
            assert traffic.outcomes[what, outcome] >= 3, (what, outcome)
    stored = {key: script.connection("GET", key) for key in script.connection("KEYS", "*")}
    model = {key.encode(): state.stored() for key, state in traffic.model.states.items()}
    assert stored == model
