"""The limiter for asyncio."""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Iterable
from time import monotonic

from saqiya._limiter import Limiter
from saqiya._policy import Policy
from saqiya._port import Port, port_of
from saqiya._saqiya import OP_CHECK, OP_PEEK, OP_REFUND, OP_RESET, Decision
from saqiya._store import Store
from saqiya._units import Seconds, wait_micros

_CHUNK = 4_096  # keys of one check_many that are on their way at once


async def _sleep_until(when: float) -> None:
    """Never ends early: timers of some loops are rounded to milliseconds."""
    while (left := when - monotonic()) > 0:
        await asyncio.sleep(max(left, 0.001))


class AsyncLimiter:
    """As Limiter, with methods to await: `if await limiter.check("user:42"): ...`.

    Decisions in this process come at once, without suspending. Over Redis the calls of one turn of
    the loop travel together; the loop is never blocked and no thread is started. A limiter may be
    used from any number of event loops, one after another or in several threads. A cancelled call
    is taken back: its request is dropped, or what it charged is refunded.
    """

    __slots__ = ("__weakref__", "_core", "_local", "_port", "store")

    def __init__(
        self,
        policy: Policy,
        *,
        store: Store | str | None = None,
        name: str | None = None,
        deadline: Seconds | None = None,
    ) -> None:
        self._core = Limiter(policy, store=store, name=name, deadline=deadline)
        self.store = self._core.store
        self._local = self._core.is_local
        self._port: Port | None = None  # of the loop that used this limiter last

    async def check(self, key: str | bytes, cost: int = 1) -> Decision:
        """Asks for cost tokens for the key; the Decision is true when allowed.

        See Limiter.check for types, ranges and errors.
        """
        if self._local:
            return self._core.check(key, cost)
        loop = get_running_loop()
        port = self._port
        if port is None or port.loop() is not loop:
            port = self._port = port_of(self.store, loop)
        future = port.submit(loop, OP_CHECK, self._core, key, cost, 0)
        try:
            return await future
        except BaseException:
            port.abandon(future, OP_CHECK, self._core, key)
            raise

    async def acquire(
        self, key: str | bytes, cost: int = 1, *, timeout: Seconds | None
    ) -> Decision:
        """As check(), waiting up to `timeout` seconds (None: as long as it takes) for the tokens.

        When they would come later than that, or never, it returns at once and nothing is charged.
        Waiting callers are served in the order in which they came. Cancelling it gives the tokens
        back.
        """
        decision = await self._reserve(key, cost, wait_micros(timeout))
        if decision and decision.delay_us > 0:
            try:
                await _sleep_until(monotonic() + decision.delay)
            except BaseException:
                self._give_back(key, decision)
                raise
        return decision

    async def peek(self, key: str | bytes, cost: int = 1) -> Decision:
        """What check() would say, charging nothing."""
        if self._local:
            return self._core.peek(key, cost)
        return await self._ask(OP_PEEK, key, cost, 0)

    async def refund(self, key: str | bytes, decision: Decision) -> Decision:
        """Gives back what the decision took, once. See Limiter.refund."""
        if self._local:
            return self._core.refund(key, decision)
        loop, port = self._bind()
        future = port.refund(loop, self._core, key, decision)
        try:
            return await future
        except BaseException:
            port.abandon(future, OP_REFUND, self._core, key)
            raise

    async def reset(self, key: str | bytes) -> Decision:
        """Forgets the key: it is as if it had never come."""
        if self._local:
            return self._core.reset(key)
        return await self._ask(OP_RESET, key, 0, 0)

    async def check_many(self, keys: Iterable[str | bytes], cost: int = 1) -> list[Decision]:
        """Checks every key of an iterable, in order, with one cost each."""
        if self._local:
            return self._core.check_many(keys, cost)
        if isinstance(keys, (str, bytes)):
            raise TypeError("keys must be an iterable of keys, not one key")
        wanted = list(keys)
        decisions: list[Decision] = []
        for start in range(0, len(wanted), _CHUNK):
            decisions += await self._check_chunk(wanted[start : start + _CHUNK], cost)
        return decisions

    @property
    def policy(self) -> str:
        """The canonical text of the policy, "5/s burst 20"."""
        return self._core.policy

    @property
    def name(self) -> str | None:
        """The name given at creation, or None."""
        return self._core.name

    def http_headers(self, decision: Decision, fields: int = 0) -> dict[str, str]:
        """See Limiter.http_headers."""
        return self._core.http_headers(decision, fields)

    def http_body(self, decision: Decision) -> str:
        """See Limiter.http_body."""
        return self._core.http_body(decision)

    def http_status(self, decision: Decision) -> int:
        """See Limiter.http_status."""
        return self._core.http_status(decision)

    def __repr__(self) -> str:
        return "Async" + repr(self._core)

    def _bind(self) -> tuple[asyncio.AbstractEventLoop, Port]:
        loop = get_running_loop()
        port = self._port
        if port is None or port.loop() is not loop:
            port = self._port = port_of(self.store, loop)
        return loop, port

    async def _reserve(self, key: str | bytes, cost: int, max_wait_us: int) -> Decision:
        """The half of acquire that does not sleep."""
        if self._local:
            return self._core.reserve(key, cost, max_wait_us)
        return await self._ask(OP_CHECK, key, cost, max_wait_us)

    async def _ask(self, operation: int, key: str | bytes, cost: int, max_wait_us: int) -> Decision:
        loop, port = self._bind()
        future = port.submit(loop, operation, self._core, key, cost, max_wait_us)
        try:
            return await future
        except BaseException:
            port.abandon(future, operation, self._core, key)
            raise

    async def _check_chunk(self, keys: list[str | bytes], cost: int) -> list[Decision]:
        loop, port = self._bind()
        futures: list[asyncio.Future[Decision]] = []
        try:
            for key in keys:
                futures.append(port.submit(loop, OP_CHECK, self._core, key, cost, 0))
            return [await future for future in futures]
        except BaseException:
            for key, future in zip(keys, futures):
                future.cancel()
                port.abandon(future, OP_CHECK, self._core, key)
            raise

    def _give_back(self, key: str | bytes, decision: Decision) -> None:
        if self._local:
            self._core.refund(key, decision)
        elif self._port is not None:
            self._port.give_back(self._core, key, decision)
