"""The limiter for asyncio."""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop, shield
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from saqiya._failure import Failure
from saqiya._limiter import Limiter, need_leases
from saqiya._policy import Policy
from saqiya._port import Port, port_of
from saqiya._saqiya import OP_CHECK, OP_PEEK, OP_RESET, Decision
from saqiya._store import Store
from saqiya._units import Seconds, wait_micros
from saqiya._waiting import acquire_async, pause_of

_CHUNK = 4_096  # keys of one check_many that are on their way at once


class AsyncLimiter:
    """As Limiter, with methods to await: `if await limiter.check("user:42"): ...`.

    Decisions in this process come at once, without suspending. Over Redis the calls of one turn of
    the loop travel together; the loop is never blocked and no thread is started. A limiter may be
    used from any number of event loops, one after another or in several threads. A cancelled call
    is taken back: its request is dropped, or what it charged is refunded. A refund, settlement or
    release, once asked for, is done even so. For several limiters at once see saqiya.aio.
    """

    __slots__ = ("__weakref__", "_core", "_local", "_port", "store")

    def __init__(
        self,
        policy: Policy,
        *,
        store: Store | str | None = None,
        name: str | None = None,
        deadline: Seconds | None = None,
        failure: Failure = "local",
        share: float | None = None,
        fallback: Policy | None = None,
        deny_cache: bool = True,
    ) -> None:
        self._core = Limiter(
            policy,
            store=store,
            name=name,
            deadline=deadline,
            failure=failure,
            share=share,
            fallback=fallback,
            deny_cache=deny_cache,
        )
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
            self._take_back(port, future, key)
            raise

    async def acquire(
        self, key: str | bytes, cost: int = 1, *, timeout: Seconds | None
    ) -> Decision:
        """As check(), waiting up to `timeout` seconds (None: as long as it takes; 0: one try).

        By reservation or by trying again: see Limiter.acquire. What would come later than that, or
        never, is answered at once and nothing is charged. Cancelling it gives back what was
        reserved, unless others have queued behind it: then its turn is lost.
        """

        async def ask(max_wait_us: int) -> Decision:
            return await self._reserve(key, cost, max_wait_us)

        return await acquire_async(
            ask,
            lambda decision: self._give_back(key, decision),
            pause_of(((self._core, key, cost),)),
            wait_micros(timeout),
        )

    @asynccontextmanager
    async def hold(
        self, key: str | bytes, cost: int = 1, *, timeout: Seconds | None = 0
    ) -> AsyncIterator[Decision]:
        """Concurrency: holds a slot for a block, `async with limiter.hold("k") as decision: ...`.

        Raises nothing when it is refused: look at the decision, which is false then. The slot is
        released at the end of the block, however it ends. See Limiter.hold.
        """
        need_leases(self._core)
        decision = await self.acquire(key, cost, timeout=timeout)
        try:
            yield decision
        finally:
            if decision:
                await self.release(key, decision)

    async def peek(self, key: str | bytes, cost: int = 1) -> Decision:
        """What check() would say, charging nothing."""
        if self._local:
            return self._core.peek(key, cost)
        return await self._ask(OP_PEEK, key, cost, 0)

    async def refund(self, key: str | bytes, decision: Decision) -> Decision:
        """Gives back what the decision took, once. See Limiter.refund."""
        if self._local:
            return self._core.refund(key, decision)
        port = self._bind()[1]
        return await shield(port.start(port.channel.refund, self._core, key, decision))

    async def settle(self, key: str | bytes, decision: Decision, cost: int) -> Decision:
        """Makes the charge of a check the true cost, once. See Limiter.settle."""
        if self._local:
            return self._core.settle(key, decision, cost)
        port = self._bind()[1]
        return await shield(port.start(port.channel.settle, self._core, key, decision, cost))

    async def release(self, key: str | bytes, decision: Decision) -> Decision:
        """Concurrency: frees the slot that the decision holds. See Limiter.release."""
        if self._local:
            return self._core.release(key, decision)
        port = self._bind()[1]
        return await shield(port.start(port.channel.release, self._core, key, decision))

    async def renew(self, key: str | bytes, decision: Decision) -> Decision:
        """Concurrency: lets the lease live for its ttl from now on. See Limiter.renew."""
        if self._local:
            return self._core.renew(key, decision)
        port = self._bind()[1]
        future = port.start(port.channel.renew, self._core, key, decision)
        try:
            return await future
        except BaseException:
            port.abandon(future)
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
            if operation == OP_CHECK:
                self._take_back(port, future, key)
            else:
                port.abandon(future)
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
                self._take_back(port, future, key)
            raise

    def _take_back(self, port: Port, future: asyncio.Future[Decision], key: str | bytes) -> None:
        """A check whose caller has left."""
        taken = port.abandon(future)
        if taken:
            port.send(port.channel.refund, self._core, key, taken)

    def _give_back(self, key: str | bytes, decision: Decision) -> None:
        """A refund that nobody waits for."""
        if self._local:
            self._core.refund(key, decision)
        else:
            port = self._bind()[1]
            port.send(port.channel.refund, self._core, key, decision)
