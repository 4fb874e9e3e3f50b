"""The random trace of all algorithms: compact rows, described in the README."""

from __future__ import annotations

from typing import Any

from scenarios.dsl import MIN, D, H, S
from scenarios.words import (
    UNLIMITED,
    Policy,
    bucket,
    calendar,
    fixed,
    leaky,
    leases,
    log,
    policy,
    sliding,
)
from step_traces import DependsOnStoreError, Stores, charged

from support.model_group import Item, Limiter
from support.model_rules import make
from support.vectors import FIELDS, OUTCOMES, STEP_OPS, lehmer

KEYS = ["a", "user:3", "{d}", "\u0643"]
LIMITERS: list[list[Policy]] = [  # each limiter, and what its policy is now and then
    [leaky(5, S, 10), leaky(3, S, 7, 4), bucket(7, MIN, 4)],
    [fixed(10, 10 * S), fixed(6, 10 * S), fixed(10, 7 * S)],
    [sliding(10, 10 * S), sliding(17, 10 * S), sliding(4, 10 * S)],
    [log(10, 10 * S), log(5, 20 * S)],
    [calendar(300, "day", "Africa/Cairo"), calendar(200, "month", "Europe/London", 31)],
    [leases(10, 10 * S), leases(4, 3 * S)],
    [policy(bucket(5, S), fixed(40, MIN), log(100, H)), policy(log(100, H), bucket(5, S))],
    [policy(sliding(20, 10 * S), leases(6, 5 * S), calendar(5_000, "week", "Asia/Kathmandu"))],
    [sliding(4_000_000_000, 30 * D), sliding(4_294_967_295, 30 * D)],
    [fixed(10, MIN), log(10, MIN), leases(10, MIN), calendar(10, "day"), fixed(0, MIN)],
    [UNLIMITED],
]
LARGE = 8  # the limiter whose costs are large


class Walk:
    def __init__(self, seed: int) -> None:
        self.draw = lehmer(seed)
        self.stores = Stores()
        self.policies = [versions[0] for versions in LIMITERS]
        self.limiters = [self.limiter(i) for i in range(len(LIMITERS))]
        self.tickets: list[tuple[int, list[Any], list[Any]]] = []  # row, tickets, asked
        self.now, self.rows = 1_790_000_000_000_000, list[list[Any]]()

    def limiter(self, index: int) -> Limiter:
        rules = tuple(make(rule) for rule in self.policies[index].rules)
        return Limiter(str(index), rules)

    def pick(self, items: Any) -> Any:
        return items[self.draw() % len(items)]

    def step(self) -> None:
        before = self.now
        scale = self.pick((0, 0, 0, 1, 10, 1_000, 10_000, 50_000, 200_000, S))
        back = self.draw() % 12 == 0
        self.now += -(self.draw() % (scale + 1)) if back else self.draw() % (scale + 1)
        if self.draw() % 1_000 == 0:
            self.now += self.pick((H, D, 40 * D))
        kind = self.draw() % 100
        try:
            if kind < 2:
                self.change_policy()
            elif kind < 26 and self.tickets:
                self.change_charge(kind)
            else:
                self.ask(kind)
        except DependsOnStoreError:
            self.now = before  # this one is left out

    def change_policy(self) -> None:
        index = self.draw() % len(LIMITERS)
        version = self.draw() % len(LIMITERS[index])
        self.policies[index] = LIMITERS[index][version]
        self.limiters[index] = self.limiter(index)
        self.rows.append([self.now, STEP_OPS.index("rule"), index, version])

    def change_charge(self, kind: int) -> None:
        row, tickets, asked = self.tickets[max(0, len(self.tickets) - 1 - self.draw() % 12)]
        items = [self.item(i, k, c) for i, k, c in asked]
        if [len(charges) for charges in tickets[0].charges] != [
            max(1, len(item.limiter.rules)) for item in items
        ]:
            return  # another number of rules: tickets are told by their place
        several = len(asked) > 1
        op = "refund_all" if several else "refund" if kind < 12 else "settle"
        if not several and asked[0][0] in (5, 7) and kind > 20:
            op = "renew"
        more: dict[str, Any] = {"items": items, "at": None}
        cost = 0
        if op == "settle":
            cost = self.pick((0, 1, asked[0][2], 2 * asked[0][2], asked[0][2] // 2))
        if op != "renew":
            more.update(actual=cost, settles=op == "settle")
        do = "renew" if op == "renew" else "adjust"
        answer, _ = self.stores.do(do, self.now, tickets, **more)
        told = [[i, k, cost if op == "settle" else 0] for i, k, _ in asked]
        self.add(op, told, 0, row, answer)

    def ask(self, kind: int) -> None:
        wait = self.pick((0, 0, 0, -1, 1, 400_000, 3 * S))
        count = self.pick((2, 2, 3, 5)) if kind < 45 else 1
        asked = [self.asked() for _ in range(count)]
        items = [self.item(*one) for one in asked]
        peeks = kind % 10 == 0
        if kind == 99:
            if items[0].limiter.rules:
                answer, _ = self.stores.do("reset", self.now, None, item=items[0])
                self.add("reset", [[*asked[0][:2], 0]], 0, None, answer)
            return
        if peeks:
            answer, _ = self.stores.do("peek", self.now, None, items=items, max_wait=0)
            self.add("peek_all" if count > 1 else "peek", asked, 0, None, answer)
            return
        answer, tickets = self.stores.do("check", self.now, None, items=items, max_wait=wait)
        if charged(tickets):
            self.tickets.append((len(self.rows), tickets, asked))
        self.add("check_all" if count > 1 else "check", asked, wait, None, answer)

    def asked(self) -> list[int]:
        limiter, key = self.draw() % len(LIMITERS), self.draw() % len(KEYS)
        cost = self.pick((0, 1, 1, 1, 1, 1, 2, 2, 3, 4, 5, 21))
        if limiter == LARGE:
            cost = self.pick((1, 12_345, 400_000_000, 1_999_999_999, 3_000_000_000))
        return [limiter, key, cost]

    def item(self, limiter: int, key: int, cost: int) -> Item:
        return Item(self.limiters[limiter], KEYS[key], cost)

    def add(self, op: str, asked: Any, wait: int, ticket: int | None, answer: Any) -> None:
        numbers = [getattr(answer, name) for name in FIELDS[1:]]
        self.rows.append(
            [
                self.now,
                STEP_OPS.index(op),
                asked,
                wait,
                ticket,
                OUTCOMES.index(answer.outcome),
                *numbers,
                answer.rule,
                answer.item,
            ]
        )


def trace(count: int, seed: int) -> dict[str, Any]:
    walk = Walk(seed)
    while len(walk.rows) < count:
        walk.step()
    limiters = [[version.json() for version in versions] for versions in LIMITERS]
    return {"limiters": limiters, "keys": KEYS, "events": walk.rows}
