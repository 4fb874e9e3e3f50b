"""The native half of saqiya. Use the package saqiya instead."""

from asyncio import Future
from collections.abc import Iterable
from typing import Any, Literal, final

from typing_extensions import disjoint_base

__version__: str

OP_CHECK: int
OP_PEEK: int
OP_RESET: int
NO_WAIT: int
MAX_COST: int

_Rule = tuple[int, int, int, int, int, int, int, str | None]
_Item = tuple[Limiter, str | bytes] | tuple[Limiter, str | bytes, int]

def check_all(items: Iterable[_Item], max_wait_us: int) -> Decision: ...
def peek_all(items: Iterable[_Item], /) -> Decision: ...
def refund_all(items: Iterable[_Item], decision: Decision) -> Decision: ...
def acquire_pause(
    items: Iterable[_Item], decision: Decision, attempt: int, left_us: int
) -> int: ...

class SaqiyaError(ValueError):
    """A call that can never work: a bad policy, URL or argument."""

    code: str
    """A short name that stays: "bad_policy", "bad_url", "invalid", ..."""
    position: int | None
    """Byte offset in the text that was read, or None."""

@final
class Decision:
    """The answer to a check: true when allowed, immutable, hashable."""

    def __new__(
        cls,
        outcome: str,
        reason: str | None = None,
        limit: int = 0,
        remaining: int = 0,
        retry_after_us: int = 0,
        reset_after_us: int = 0,
        delay_us: int = 0,
        rule: int = 0,
        item: int = 0,
        rules: tuple[Decision, ...] = (),
        source: str = "store",
    ) -> Decision: ...
    @property
    def allowed(self) -> bool: ...
    @property
    def outcome(self) -> Literal["allowed", "denied", "never", "unavailable"]: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def source(self) -> Literal["store", "cache", "local", "open", "closed"]: ...
    @property
    def retry_after(self) -> float: ...
    @property
    def reset_after(self) -> float: ...
    @property
    def delay(self) -> float: ...
    @property
    def limit(self) -> int: ...
    @property
    def remaining(self) -> int: ...
    @property
    def retry_after_us(self) -> int: ...
    @property
    def reset_after_us(self) -> int: ...
    @property
    def delay_us(self) -> int: ...
    @property
    def rule(self) -> int: ...
    @property
    def item(self) -> int: ...
    @property
    def rules(self) -> tuple[Decision, ...]: ...
    @property
    def items(self) -> tuple[Decision, ...]: ...
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(
        self,
    ) -> tuple[type[Decision], tuple[object, ...]]: ...

@disjoint_base
class Limiter:
    """A policy bound to a store; policy is text or a tuple of rules, each (algorithm, capacity,
    tokens, period_us, queue, unit, anchor_day, zone). failure: its number in the C API, or 0."""

    def __init__(
        self,
        store: Store,
        policy: str | tuple[_Rule, ...],
        name: str | None = None,
        deadline_us: int = 0,
        failure: int = 0,
        share_ppm: int = 0,
        fallback: str | None = None,
        deny_cache: bool = True,
    ) -> None: ...
    @property
    def policy(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def rule_count(self) -> int: ...
    @property
    def is_local(self) -> bool: ...
    def check(self, key: str | bytes, cost: int = 1) -> Decision: ...
    def peek(self, key: str | bytes, cost: int = 1) -> Decision: ...
    def reserve(self, key: str | bytes, cost: int, max_wait_us: int) -> Decision: ...
    def refund(self, key: str | bytes, decision: Decision) -> Decision: ...
    def settle(self, key: str | bytes, decision: Decision, cost: int) -> Decision: ...
    def renew(self, key: str | bytes, decision: Decision) -> Decision: ...
    def release(self, key: str | bytes, decision: Decision) -> Decision: ...
    def reset(self, key: str | bytes) -> Decision: ...
    def check_many(self, keys: Iterable[str | bytes], cost: int = 1) -> list[Decision]: ...
    def http_headers(self, decision: Decision, fields: int = 0) -> dict[str, str]: ...
    def http_body(self, decision: Decision, /) -> str: ...
    def http_status(self, decision: Decision, /) -> int: ...

@final
class Channel:
    """A queue of requests for one event loop."""

    def __init__(self, store: Store, capacity: int = 0) -> None: ...
    def submit(
        self,
        future: Future[Decision] | None,
        operation: int,
        limiter: Limiter,
        key: str | bytes,
        cost: int,
        max_wait_us: int,
        /,
    ) -> None: ...
    def submit_all(
        self,
        future: Future[Decision] | None,
        operation: int,
        items: Iterable[_Item],
        max_wait_us: int,
        /,
    ) -> None: ...
    def refund(
        self,
        future: Future[Decision] | None,
        limiter: Limiter,
        key: str | bytes,
        decision: Decision,
        /,
    ) -> None: ...
    def refund_all(
        self,
        future: Future[Decision] | None,
        items: Iterable[_Item],
        decision: Decision,
        /,
    ) -> None: ...
    def settle(
        self,
        future: Future[Decision] | None,
        limiter: Limiter,
        key: str | bytes,
        decision: Decision,
        cost: int,
        /,
    ) -> None: ...
    def release(
        self,
        future: Future[Decision] | None,
        limiter: Limiter,
        key: str | bytes,
        decision: Decision,
        /,
    ) -> None: ...
    def renew(
        self,
        future: Future[Decision] | None,
        limiter: Limiter,
        key: str | bytes,
        decision: Decision,
        /,
    ) -> None: ...
    def process(self) -> int: ...
    def cancel(self, future: Future[Decision], /) -> Decision | None: ...
    def close(self) -> None: ...
    def fileno(self) -> int: ...
    @property
    def pending(self) -> int: ...

@final
class Clock:
    """A manual clock, in whole microseconds."""

    def __init__(self, now_us: int = 0) -> None: ...
    def set(self, now_us: int) -> None: ...
    def set_wall(self, wall_us: int) -> None: ...
    def advance(self, by_us: int) -> None: ...
    @property
    def now_us(self) -> int: ...
    @property
    def wall_us(self) -> int: ...

@final
class Store:
    """Where state lives. Opening one makes no connection."""

    def __init__(
        self,
        url: str,
        clock: Clock | None = None,
        max_keys: int = 0,
        deadline_us: int = 0,
        prefix: str | None = None,
        secret: bytes | None = None,
        connections: int = 0,
        hash_subjects: bool = False,
        testing: bool = False,
    ) -> None: ...
    @property
    def is_local(self) -> bool: ...
    def stats(self) -> dict[str, Any]: ...
