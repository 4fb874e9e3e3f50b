"""Waiting for Redis under gevent and eventlet: the greenlet waits, its hub goes on.

Where one of them has patched the process and its hub runs in the current thread, the native layer
lets this module make the calls that would block. Greenlets that ask in one turn of the hub travel
together. While any of them waits, one greenlet more drives the connection; no thread is started.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Union
from weakref import WeakKeyDictionary

from saqiya import _saqiya
from saqiya._limiter import Limiter
from saqiya._port import CAPACITY
from saqiya._saqiya import OP_CHECK, OP_PEEK, OP_RESET, Decision
from saqiya._store import Store

Key = Union[str, bytes]
Items = tuple[Any, ...]

_NEVER = float("inf")
_CHUNK = 4_096  # keys of one check_many that are on their way at once


class _Gevent:
    """What is needed of gevent."""

    @staticmethod
    def hub() -> Any:
        """The hub of this thread; None: no greenlet of it can be held up, or it cannot wait."""
        from gevent import getcurrent, monkey
        from gevent._hub_local import get_hub_if_exists

        if not monkey.is_module_patched("socket"):
            return None
        hub = get_hub_if_exists()
        return None if hub is getcurrent() else hub

    @staticmethod
    def spawn(function: Callable[[], None]) -> None:
        import gevent

        gevent.spawn(function)

    @staticmethod
    def sleep(seconds: float) -> None:
        import gevent

        gevent.sleep(seconds)

    @staticmethod
    def event() -> tuple[Callable[[], object], Callable[[], object]]:
        """Two functions: one lets the greenlet go on that waits in the other."""
        from gevent.event import Event

        event = Event()
        return event.set, event.wait

    @staticmethod
    def wait_read(fd: int, timeout: float | None) -> None:
        from gevent import socket

        with suppress(socket.timeout):
            socket.wait_read(fd, timeout)


class _Eventlet:
    """The same of eventlet."""

    @staticmethod
    def hub() -> Any:
        from eventlet import getcurrent, hubs, patcher

        if not patcher.is_monkey_patched("socket"):
            return None
        hub = getattr(hubs._threadlocal, "hub", None)
        return None if hub is None or hub.greenlet is getcurrent() else hub

    @staticmethod
    def spawn(function: Callable[[], None]) -> None:
        import eventlet

        eventlet.spawn_n(function)

    @staticmethod
    def sleep(seconds: float) -> None:
        import eventlet

        eventlet.sleep(seconds)

    @staticmethod
    def event() -> tuple[Callable[[], object], Callable[[], object]]:
        from eventlet.event import Event

        event = Event()
        return event.send, event.wait

    @staticmethod
    def wait_read(fd: int, timeout: float | None) -> None:
        from eventlet import Timeout, hubs

        with suppress(Timeout):
            hubs.trampoline(fd, read=True, timeout=timeout)


_Library = Union[type[_Gevent], type[_Eventlet]]
_LIBRARIES: tuple[tuple[str, _Library], ...] = (
    ("gevent.monkey", _Gevent),
    ("eventlet.patcher", _Eventlet),
)


def _find() -> tuple[Any, _Library] | None:
    for module, library in _LIBRARIES:
        if module in sys.modules:
            hub = library.hub()
            if hub is not None:
                return hub, library
    return None


def is_here() -> bool:
    """Whether a call that blocks would hold up other greenlets of this thread."""
    return _find() is not None


class _Answer:
    """As much of a future as a Channel needs."""

    __slots__ = ("_wake", "decision", "left", "wait")

    def __init__(self, library: _Library) -> None:
        self._wake, self.wait = library.event()
        self.decision: Decision | None = None
        self.left = False  # nobody waits any more

    def set_result(self, decision: Decision) -> None:
        if self.left:
            raise RuntimeError  # the channel keeps the decision for cancel()
        self.decision = decision
        self._wake()


class _Port:
    """One hub's connection to one store."""

    def __init__(self, store: Store, library: _Library) -> None:
        self.channel = _saqiya.Channel(store._native, CAPACITY)
        self.process = os.getpid()
        self._library = library
        self._is_driven = False
        self._is_flushing = False
        # When the driver looks next, and who watches for it, should that be too late; monotonic.
        self._driver_due = _NEVER
        self._watch_due = _NEVER
        self._waiting: set[_Answer] = set()

    def start(self, call: Callable[..., None], *arguments: Any) -> _Answer:
        """call: a method of the channel, which takes the future first."""
        answer = _Answer(self._library)
        call(answer, *arguments)
        self._waiting.add(answer)
        self._need_driver()
        return answer

    def send(self, call: Callable[..., None], *arguments: Any) -> None:
        """As start, when nobody waits for the decision."""
        call(None, *arguments)
        self._need_driver()

    def finish(self, answer: _Answer) -> Decision:
        """Waits. An exception of the greenlet's (it is killed, a Timeout) leaves the call going."""
        try:
            if answer.decision is None:
                answer.wait()
        finally:
            self._waiting.discard(answer)
        assert answer.decision is not None
        return answer.decision

    def abandon(self, answer: _Answer) -> Decision | None:
        """Drops the request; a decision that had come is returned."""
        answer.left = True
        self._waiting.discard(answer)
        return answer.decision or self.channel.cancel(answer)  # type: ignore[arg-type]

    def _need_driver(self) -> None:
        if not self._is_driven:
            self._is_driven = True
            self._library.spawn(self._drive)
        elif not self._is_flushing:
            self._is_flushing = True
            self._library.spawn(self._flush)

    def _flush(self) -> None:
        """Sends what was asked in this turn: the driver waits, and may wait too long for that."""
        self._is_flushing = False
        while self._is_ours():
            timeout_us = self.channel.process()
            due = time.monotonic() + timeout_us / 1e6 if timeout_us >= 0 else _NEVER
            if due >= min(self._driver_due, self._watch_due):
                return
            self._watch_due = due
            try:
                self._library.sleep(timeout_us / 1e6)
            finally:
                self._watch_due = _NEVER

    def _drive(self) -> None:
        try:
            # Beyond the last answer, too, while a connection is being opened.
            while self._is_ours():
                timeout_us = self.channel.process()
                if self.channel.pending == 0 and timeout_us < 0:
                    return
                timeout = timeout_us / 1e6 if timeout_us >= 0 else None
                self._driver_due = _NEVER if timeout is None else time.monotonic() + timeout
                self._library.wait_read(self.channel.fileno(), timeout)
        finally:
            self._is_driven = False
            if self._is_ours() and self.channel.pending > 0:
                self._need_driver()  # this one was killed

    def _is_ours(self) -> bool:
        """False in a child after fork, where what was asked is the parent's."""
        if self.process == os.getpid():
            return True
        while self._waiting:
            self._waiting.pop().set_result(Decision("unavailable", "cancelled"))
        return False


def _port_of(store: Store) -> _Port:
    found = _find()
    assert found is not None
    hub, library = found
    if store._hubs is None:
        store._hubs = WeakKeyDictionary()
    port: _Port | None = store._hubs.get(hub)
    if port is None or port.process != os.getpid():
        port = store._hubs[hub] = _Port(store, library)
    return port


def _ask(port: _Port, call: Callable[..., None], *arguments: Any) -> Decision:
    """For what may be dropped when its caller is gone."""
    answer = port.start(call, *arguments)
    try:
        return port.finish(answer)
    except BaseException:
        port.abandon(answer)
        raise


def check(limiter: Limiter, key: Key, cost: int = 1) -> Decision:
    return reserve(limiter, key, cost, 0)


def reserve(limiter: Limiter, key: Key, cost: int, max_wait_us: int) -> Decision:
    port = _port_of(limiter.store)
    answer = port.start(port.channel.submit, OP_CHECK, limiter, key, cost, max_wait_us)
    return _charge(port, answer, lambda taken: port.send(port.channel.refund, limiter, key, taken))


def _charge(port: _Port, answer: _Answer, give_back: Callable[[Decision], None]) -> Decision:
    """Of a check whose caller leaves nothing stays charged."""
    try:
        return port.finish(answer)
    except BaseException:
        taken = port.abandon(answer)
        if taken:
            give_back(taken)
        raise


def peek(limiter: Limiter, key: Key, cost: int = 1) -> Decision:
    port = _port_of(limiter.store)
    return _ask(port, port.channel.submit, OP_PEEK, limiter, key, cost, 0)


def reset(limiter: Limiter, key: Key) -> Decision:
    port = _port_of(limiter.store)
    return _ask(port, port.channel.submit, OP_RESET, limiter, key, 0, 0)


def renew(limiter: Limiter, key: Key, decision: Decision) -> Decision:
    port = _port_of(limiter.store)
    return _ask(port, port.channel.renew, limiter, key, decision)


def refund(limiter: Limiter, key: Key, decision: Decision) -> Decision:
    port = _port_of(limiter.store)
    return port.finish(port.start(port.channel.refund, limiter, key, decision))


def settle(limiter: Limiter, key: Key, decision: Decision, cost: int) -> Decision:
    port = _port_of(limiter.store)
    return port.finish(port.start(port.channel.settle, limiter, key, decision, cost))


def release(limiter: Limiter, key: Key, decision: Decision) -> Decision:
    port = _port_of(limiter.store)
    return port.finish(port.start(port.channel.release, limiter, key, decision))


def check_many(limiter: Limiter, keys: Iterable[Key], cost: int = 1) -> list[Decision]:
    if isinstance(keys, (str, bytes)):
        raise TypeError("keys must be an iterable of keys, not one key")
    wanted = list(keys)
    port = _port_of(limiter.store)
    decisions: list[Decision] = []
    for first in range(0, len(wanted), _CHUNK):
        decisions += _check_chunk(port, limiter, wanted[first : first + _CHUNK], cost)
    return decisions


def _check_chunk(port: _Port, limiter: Limiter, keys: list[Key], cost: int) -> list[Decision]:
    answers: list[_Answer] = []
    try:
        for key in keys:
            answers.append(port.start(port.channel.submit, OP_CHECK, limiter, key, cost, 0))
        return [port.finish(answer) for answer in answers]
    except BaseException:
        for key, answer in zip(keys, answers):
            taken = port.abandon(answer)
            if taken:
                port.send(port.channel.refund, limiter, key, taken)
        raise


def check_all(items: Items, max_wait_us: int) -> Decision:
    port = _port_of(items[0][0].store)
    answer = port.start(port.channel.submit_all, OP_CHECK, items, max_wait_us)
    return _charge(port, answer, lambda taken: port.send(port.channel.refund_all, items, taken))


def peek_all(items: Items) -> Decision:
    port = _port_of(items[0][0].store)
    return _ask(port, port.channel.submit_all, OP_PEEK, items, 0)


def refund_all(items: Items, decision: Decision) -> Decision:
    port = _port_of(items[0][0].store)
    return port.finish(port.start(port.channel.refund_all, items, decision))
