"""Fills the scenarios of all algorithms with the reference model's answers, as generate.py does
for those of token buckets.

Each is played on several models at once that differ in when they forget what is dead. Where their
answers differ the trace would depend on the store, and the generator stops. For the same reason
the clock may not go back once anything stored was dead: a store may have noted when it dropped it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from scenarios import (
    steps_calendar,
    steps_changed,
    steps_fixed,
    steps_groups,
    steps_leaky,
    steps_leaky_tickets,
    steps_leases,
    steps_log,
    steps_policies,
    steps_settle,
    steps_sliding,
)
from scenarios.dsl import Step
from scenarios.words import Case, Policy

from support.model import ALLOWED
from support.model_group import Answer, Item, Limiter, Store, Ticket
from support.model_rules import make
from support.vectors import FIELDS

Json = dict[str, Any]


class MismatchError(Exception):
    """The model and a hand-written expectation differ: one of the two is wrong."""


class DependsOnStoreError(Exception):
    """The answer depends on whether what is dead is still stored."""


class Stores:
    """Models that must agree: one forgets nothing, one all that is dead, one what it looks at."""

    def __init__(self) -> None:
        self._stores = [Store(forgets) for forgets in ("nothing", "dead", "touched")]
        self._not_before = 0  # the clock may not be put back behind this

    def do(self, op: str, now: int, ticket: list[Ticket] | None, **more: Any) -> tuple[Any, Any]:
        """The answer and the tickets, one of each store."""
        if now < self._not_before:
            raise DependsOnStoreError("the clock goes back behind a death")
        before = [store.memory() for store in self._stores], copy.deepcopy(ticket)
        if any(store.anything_dead(now) for store in self._stores[:1]):
            self._not_before = now
        results = []
        for i, store in enumerate(self._stores):
            args = {**more, "now": now}
            if ticket is not None:
                args["ticket"] = ticket[i]
            results.append(getattr(store, op)(**args))
        answers = [r[0] if isinstance(r, tuple) else r for r in results]
        if any(answer != answers[0] for answer in answers):
            for store, memory in zip(self._stores, before[0], strict=True):
                store.recall(memory)
            if ticket is not None and before[1] is not None:
                ticket[:] = before[1]
            raise DependsOnStoreError(f"{op} at {now}: {answers}")
        if op == "reset" or any(store.anything_dead(now) for store in self._stores[:1]):
            self._not_before = now
        return answers[0], [r[1] for r in results] if isinstance(results[0], tuple) else None


def answer_json(answer: Answer, full: bool) -> Json:
    data: Json = {name: getattr(answer, name) for name in FIELDS}
    if full:
        data.update(rule=answer.rule, item=answer.item)
        data["each"] = [{name: getattr(e, name) for name in FIELDS} for e in answer.each]
    return data


def charged(tickets: list[Ticket]) -> bool:
    return any(charge for charges in tickets[0].charges for charge in charges)


class Playing:
    """One scenario on its way to being a trace."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.stores = Stores()
        self.limiters = [self.limiter(i, policy) for i, policy in enumerate(case.limiters)]
        self.tickets: dict[str, tuple[int, list[Ticket], list[tuple[int, str, int]]]] = {}
        self.steps: list[Json] = []

    def limiter(self, index: int, policy: Policy) -> Limiter:
        return Limiter(str(index), tuple(make(rule) for rule in policy.rules))

    def trace(self) -> Json:
        for source in self.case.steps:
            for step in self.expanded(source):
                self.add(step)
        head: Json = {"name": self.case.name, "comment": self.case.comment}
        if self.case.case:
            head["case"] = list(self.case.case)
        policies = [policy.json() for policy in self.case.limiters]
        head.update({"limiters": policies} if self.case.grouped else {"rule": policies[0]})
        return {**head, "steps": self.steps}

    def expanded(self, step: Step) -> Iterator[Step]:
        """A probe as the four steps it stands for."""
        if step["op"] != "probe":
            yield step
            return
        base = {name: value for name, value in step.items() if name != "retry"}
        want = {"outcome": "denied"}
        if step["retry"] is not None:
            want["retry_after_us"] = step["retry"]
        yield {**base, "op": "check", "want": want}
        retry = self.steps[-1]["expect"]["retry_after_us"]
        almost = {"outcome": "denied", "retry_after_us": 1}
        if retry > 1:
            yield {**base, "op": "check", "now": step["now"] + retry - 1, "want": almost}
        late = {**base, "now": step["now"] + retry, "want": {"outcome": "allowed"}}
        yield {**late, "op": "peek"}
        yield {**late, "op": "check"}

    def add(self, source: Step) -> None:
        step = {name: v for name, v in source.items() if name not in ("want", "id", "maybe")}
        if step.get("key") == "k":
            del step["key"]
        if step.get("limiter") == 0:
            del step["limiter"]
        if step["op"] == "rule":
            index = source.get("limiter", 0)
            step["rule"] = source["rule"].json()
            self.limiters[index] = self.limiter(index, source["rule"])
            self.steps.append(step)
            return
        try:
            answer = self.ask(source, step)
        except DependsOnStoreError as error:
            if source.get("maybe"):
                return
            raise MismatchError(f"{self.case.name} step {len(self.steps)}: {error}") from error
        if answer is None:
            return
        wide = step["op"] in ("check_all", "peek_all")
        asks = step["op"] in ("check", "peek")
        full = wide or (asks and len(self.limiters[source.get("limiter", 0)].rules) > 1)
        step["expect"] = answer_json(answer, full)
        self.compare(source, {**step["expect"], "rule": answer.rule, "item": answer.item})
        self.steps.append(step)

    def ask(self, source: Step, step: Json) -> Answer | None:
        op, now = source["op"], source["now"]
        if op in ("refund", "settle", "renew", "refund_all"):
            return self.change(source, step)
        if op in ("check_all", "peek_all"):
            asked = list(source["items"])
            step["items"] = [{"limiter": i, "key": k, "cost": c} for i, k, c in asked]
        else:
            asked = [(source.get("limiter", 0), source.get("key", "k"), source.get("cost", 1))]
        items = [Item(self.limiters[i], key, cost) for i, key, cost in asked]
        if op == "reset":
            return self.stores.do("reset", now, None, item=items[0])[0]
        wait = source.get("max_wait_us", 0)
        if op in ("peek", "peek_all"):
            return self.stores.do("peek", now, None, items=items, max_wait=wait)[0]
        if "repeat" in source:
            return self.poll(source, items, wait)
        answer, tickets = self.stores.do("check", now, None, items=items, max_wait=wait)
        if "id" in source and (charged(tickets) or not source.get("maybe")):
            if not charged(tickets):
                raise MismatchError(f"{self.case.name} {source}: nothing charged, so no ticket")
            self.tickets[source["id"]] = len(self.steps), tickets, asked
        return answer

    def change(self, source: Step, step: Json) -> Answer | None:
        if source.get("maybe") and source["id"] not in self.tickets:
            return None
        step["ticket"], tickets, asked = self.tickets[source["id"]]
        items = [Item(self.limiters[i], key, cost) for i, key, cost in asked]
        if source["op"] == "refund_all":
            step["items"] = [{"limiter": i, "key": k, "cost": c} for i, k, c in asked]
        else:
            assert len(asked) == 1 or "item" in source, "which item?"
            limiter, key, _ = asked[source.get("item", 0)]
            step.update({"limiter": limiter} if limiter != 0 else {})
            step.pop("key", None)
            step.update({"key": key} if key != "k" else {})
        more: Json = {"items": items, "at": source.get("item")}
        if source["op"] == "renew":
            return self.stores.do("renew", source["now"], tickets, **more)[0]
        more["settles"] = source["op"] == "settle"
        more["actual"] = source["cost"] if more["settles"] else 0
        return self.stores.do("adjust", source["now"], tickets, **more)[0]

    def poll(self, source: Step, items: list[Item], wait: int) -> Answer:
        """A repeated step. Refused polls change nothing, so those up to retry_after are skipped."""
        every, last = source["every_us"], source["repeat"] - 1
        i, count = 0, 0
        while True:
            now = source["now"] + i * every
            answer, _ = self.stores.do("check", now, None, items=items, max_wait=wait)
            count += answer.outcome == ALLOWED
            if i == last:
                break
            skip = 1
            if answer.outcome != ALLOWED:
                retry = answer.retry_after_us
                skip = last - i if retry is None or every == 0 else -(-retry // every)
            i = min(i + skip, last)
        if count != source["expect_allowed"]:
            raise MismatchError(
                f"{self.case.name} step {len(self.steps)} {source}: model admits {count}"
            )
        return answer

    def compare(self, source: Step, got: Json) -> None:
        wrong = [
            f"{name}: by hand {value}, model {got[name]}"
            for name, value in (source.get("want") or {}).items()
            if got[name] != value
        ]
        if wrong:
            raise MismatchError(
                f"{self.case.name} step {len(self.steps)} {source}:\n  " + "\n  ".join(wrong)
            )


def play(case: Case) -> Json:
    return Playing(case).trace()


def traces(*modules: Any) -> list[Json]:
    made = [play(case) for module in modules for case in module.SCENARIOS]
    names = [trace["name"] for trace in made]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"two traces have the same name: {twice}"
    return made


FILES = {
    "leaky_bucket.json": (steps_leaky, steps_leaky_tickets),
    "fixed_window.json": (steps_fixed,),
    "sliding_window.json": (steps_sliding,),
    "sliding_log.json": (steps_log,),
    "concurrency.json": (steps_leases,),
    "settle.json": (steps_settle,),
    "calendar.json": (steps_calendar,),
    "groups.json": (steps_groups, steps_policies),
    "changed_limits.json": (steps_changed,),
}
