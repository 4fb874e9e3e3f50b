"""One event loop's connection to one store.

A Port drives a native Channel on its loop: it flushes what was submitted once per turn of the
loop, watches the channel's descriptor, and keeps one timer for deadlines. It starts no thread. It
holds its loop weakly and the loop holds it weakly, so each may go first.
"""

from __future__ import annotations

import asyncio
import math
import weakref
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from saqiya import _saqiya
from saqiya._saqiya import Decision
from saqiya._store import Store

CAPACITY = 65_536
"""Requests of one loop that may wait at once; further ones are unavailable, reason "busy"."""


class Port:
    __slots__ = (
        "__weakref__",
        "_fd",
        "_scheduled",
        "_timer_when",
        "channel",
        "loop",
    )

    def __init__(self, store: Store, loop: AbstractEventLoop) -> None:
        channel = _saqiya.Channel(store._native, CAPACITY)
        self.channel = channel
        self._fd = channel.fileno()
        self._scheduled = False
        # When the timer that counts will fire. Its handle would keep the loop, so it is not kept:
        # a timer is never cancelled, and one that has been overtaken does nothing.
        self._timer_when = math.inf
        # A loop that goes without being closed takes the sockets along.
        self.loop = weakref.ref(loop, lambda _loop: channel.close())
        loop.add_reader(self._fd, _readable, weakref.ref(self))

    def submit(
        self,
        loop: AbstractEventLoop,
        operation: int,
        limiter: _saqiya.Limiter,
        key: str | bytes,
        cost: int,
        max_wait_us: int,
    ) -> Future[Decision]:
        """A future of `loop`, which is the port's and is running."""
        future: Future[Decision] = loop.create_future()
        self.channel.submit(future, operation, limiter, key, cost, max_wait_us)
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._turn)
        return future

    def start(self, call: Callable[..., None], *arguments: Any) -> Future[Decision]:
        """As submit, by another call of the channel, which takes the future first.

        Runs on the port's loop.
        """
        loop = asyncio.get_running_loop()
        future: Future[Decision] = loop.create_future()
        call(future, *arguments)
        self._schedule(loop)
        return future

    def send(self, call: Callable[..., None], *arguments: Any) -> None:
        """As start, when nobody waits for the decision."""
        loop = self.loop()
        if loop is not None and not loop.is_closed():
            call(None, *arguments)
            self._schedule(loop)

    def abandon(self, future: Future[Decision]) -> Decision | None:
        """The caller has left: its request is dropped; a decision that had come is returned.

        Every future of submit or start whose result nobody takes must come here; an allowed check
        that is returned must be given back.
        """
        decision = self.channel.cancel(future)
        if decision is None and future.done() and not future.cancelled():
            decision = future.result()
        return decision

    def _schedule(self, loop: AbstractEventLoop) -> None:
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self.process()

    def _timed_out(self, when: float) -> None:
        if when == self._timer_when:
            self._timer_when = math.inf
            self.process()

    def process(self) -> None:
        timeout_us = self.channel.process()
        loop = self.loop()
        if timeout_us < 0 or loop is None:
            return
        when = loop.time() + timeout_us / 1e6
        if when < self._timer_when:  # else the timer that comes sooner will set the next one
            self._timer_when = when
            loop.call_at(when, _due, weakref.ref(self), when)

    def __del__(self) -> None:
        # The descriptor must leave the loop's selector before it is closed: its number may be
        # given out again at once. Another thread's loop does that itself, and closes after it.
        try:
            channel, fd = self.channel, self._fd
        except AttributeError:
            return  # the constructor failed
        loop = self.loop()
        if loop is None or loop.is_closed():
            channel.close()
        elif asyncio._get_running_loop() is loop:
            _retire(loop, fd, channel)
        else:
            with suppress(RuntimeError):  # closed meanwhile
                loop.call_soon_threadsafe(_retire, loop, fd, channel)


def _readable(reference: weakref.ref[Port]) -> None:
    port = reference()
    if port is not None:
        port.process()


def _due(reference: weakref.ref[Port], when: float) -> None:
    port = reference()
    if port is not None:
        port._timed_out(when)


def _retire(loop: AbstractEventLoop, fd: int, channel: _saqiya.Channel) -> None:
    loop.remove_reader(fd)
    channel.close()


def port_of(store: Store, loop: AbstractEventLoop) -> Port:
    """The port of this loop, made at first use."""
    port = store._ports.get(loop)
    if port is None:
        port = store._ports[loop] = Port(store, loop)
    return port
