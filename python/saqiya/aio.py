"""For asyncio: AsyncLimiter, and several of them at once.

    from saqiya import AsyncLimiter, aio

    decision = await aio.check_all([(per_user, user), (per_ip, address)])

The functions are those of the package saqiya, over AsyncLimiters and to be awaited. Over Redis they
travel together with the other calls of the loop's turn. Cancelling one takes it back.
"""

from __future__ import annotations

from asyncio import get_running_loop, shield
from collections.abc import Iterable
from typing import Union

from saqiya import _saqiya
from saqiya._aio import AsyncLimiter
from saqiya._port import Port, port_of
from saqiya._saqiya import OP_CHECK, OP_PEEK, Decision
from saqiya._units import Seconds, wait_micros
from saqiya._waiting import acquire_async, pause_of

__all__ = ["AsyncLimiter", "Item", "acquire_all", "check_all", "peek_all", "refund_all"]

Key = Union[str, bytes]
Item = Union[tuple[AsyncLimiter, Key], tuple[AsyncLimiter, Key, int]]
"""What a limiter is asked for, together with others: (limiter, key) or (limiter, key, cost)."""


class _Group:
    """Items as the native layer takes them, and the way to their store."""

    __slots__ = ("_port", "items")

    def __init__(self, items: Iterable[Item]) -> None:
        wanted = []
        first: AsyncLimiter | None = None
        for item in items:
            if not isinstance(item, (tuple, list)) or not item:
                raise TypeError("an item must be (limiter, key) or (limiter, key, cost)")
            limiter = item[0]
            if not isinstance(limiter, AsyncLimiter):
                raise TypeError(f"limiter must be an AsyncLimiter, not {type(limiter).__name__}")
            wanted.append((limiter._core, *item[1:]))
            first = first or limiter
        self.items = tuple(wanted)
        self._port: Port | None = None
        if first is not None and not first._local:
            self._port = port_of(first.store, get_running_loop())

    async def ask(self, operation: int, max_wait_us: int) -> Decision:
        if self._port is None:
            if operation == OP_PEEK:
                return _saqiya.peek_all(self.items)
            return _saqiya.check_all(self.items, max_wait_us)
        port = self._port
        future = port.start(port.channel.submit_all, operation, self.items, max_wait_us)
        try:
            return await future
        except BaseException:
            taken = port.abandon(future)
            if taken and operation == OP_CHECK:
                self.give_back(taken)
            raise

    async def refund(self, decision: Decision) -> Decision:
        if self._port is None:
            return _saqiya.refund_all(self.items, decision)
        # Once asked for, it is done, even if the caller leaves.
        return await shield(self._port.start(self._port.channel.refund_all, self.items, decision))

    def give_back(self, decision: Decision) -> None:
        """A refund that nobody waits for."""
        if self._port is None:
            _saqiya.refund_all(self.items, decision)
        else:
            self._port.send(self._port.channel.refund_all, self.items, decision)


async def check_all(items: Iterable[Item]) -> Decision:
    """Decides up to 16 items together: all are charged, or none is. See saqiya.check_all."""
    return await _Group(items).ask(OP_CHECK, 0)


async def peek_all(items: Iterable[Item]) -> Decision:
    """What check_all() would say, charging nothing."""
    return await _Group(items).ask(OP_PEEK, 0)


async def acquire_all(items: Iterable[Item], *, timeout: Seconds | None) -> Decision:
    """As check_all(), waiting up to `timeout` as AsyncLimiter.acquire() does."""
    group = _Group(items)

    async def ask(max_wait_us: int) -> Decision:
        return await group.ask(OP_CHECK, max_wait_us)

    pause = pause_of(group.items)
    return await acquire_async(ask, group.give_back, pause, wait_micros(timeout))


async def refund_all(items: Iterable[Item], decision: Decision) -> Decision:
    """Gives back, once, what check_all() or acquire_all() took. See saqiya.refund_all."""
    return await _Group(items).refund(decision)
