"""Stores and the manual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from saqiya import _saqiya
from saqiya._saqiya import SaqiyaError
from saqiya._units import Seconds, deadline_micros, error, micros

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from saqiya._port import Port


_LAST_US = 2**52  # of a manual clock


def _reading(us: int, what: str) -> int:
    if not 0 <= us <= _LAST_US:
        raise error("invalid", f"{what} must be from 0 to 2**52 microseconds, not {us}")
    return us


class ManualClock:
    """A clock that moves only when told to, for tests and simulation. Safe from any thread.

    Readings are 0 ... 2**52 microseconds. Seconds are rounded to the nearest microsecond; the
    methods whose names end in _us are exact.
    """

    __slots__ = ("_native",)

    def __init__(self, now: Seconds = 0.0) -> None:
        self._native = _saqiya.Clock(_reading(micros(now, "now"), "now"))

    def advance(self, by: Seconds) -> None:
        """Moves the clock; `by` may be negative."""
        self.advance_us(micros(by, "by"))

    def advance_us(self, by_us: int) -> None:
        try:
            self._native.advance(by_us)
        except SaqiyaError:
            message = f"the clock's readings must stay from 0 to 2**52 microseconds: {by_us:+d}"
            raise error("invalid", message) from None

    def set(self, now: Seconds) -> None:
        """Sets both readings, monotonic and wall; going back is allowed."""
        self.set_us(micros(now, "now"))

    def set_us(self, now_us: int) -> None:
        self._native.set(_reading(now_us, "now"))

    def set_wall(self, wall: Seconds) -> None:
        """Sets the wall reading alone. In this process only windows and calendars look at it."""
        self._native.set_wall(_reading(micros(wall, "wall"), "wall"))

    @property
    def now_us(self) -> int:
        """The monotonic reading in microseconds."""
        return self._native.now_us

    @property
    def wall_us(self) -> int:
        """The wall reading in microseconds."""
        return self._native.wall_us


class StoreStats(NamedTuple):
    """Counters of one store."""

    keys: int
    """In this process: entries held now."""
    bytes: int
    """In this process: bytes held for them."""
    evictions: int
    """In this process: entries dropped at the bound before they were full."""
    requests: int
    """Redis: requests sent."""
    batches: int
    """Redis: scripts called."""
    connects: int
    """Redis: connections made."""
    failures: int
    """Redis: requests that it did not answer, whatever was decided without it."""
    allowed: int
    """Redis: checks that it allowed. Of this and the next six, check_all() counts as one check."""
    denied: int
    """Redis: checks that it denied."""
    cached: int
    """Redis: checks denied by a refusal that this process remembered."""
    local_allowed: int
    """Redis did not answer: checks allowed in this process (failure "local")."""
    local_denied: int
    """The same, denied."""
    opened: int
    """Redis did not answer: checks allowed unseen (failure "open")."""
    closed: int
    """Redis did not answer: checks denied unseen (failure "closed")."""
    outages: int
    """Redis: how often it has gone away."""
    degraded: bool
    """Redis: a server is away now."""
    latency: tuple[int, ...]
    """Redis: requests answered within 64 us, 128 us, ... doubling, and not within less; the last of
    the 16: all that took longer."""


def _check_types(**arguments: tuple[Any, ...]) -> None:
    """Names the argument, never its value, which may hold a password."""
    for name, (value, *types) in arguments.items():
        if not isinstance(value, tuple(types)):
            wanted = " or ".join(t.__name__ for t in types if t is not type(None))
            raise TypeError(f"{name} must be {wanted}, not {type(value).__name__}")


class Store:
    """Where limiters keep their state. Safe from any thread, and after fork().

    url: one of
        memory://                                                   this process
        redis://[[user][:password]@]host[:port][/database][?OPTIONS]
        unix://[[user][:password]@]/path/to/socket[?db=N&OPTIONS]
        redis+sentinel://[[user][:password]@]host[:port][,host[:port]...]/master[/database][?OPTIONS]
        redis+cluster://[[user][:password]@]host[:port][,host[:port]...][?OPTIONS]
        rediss://, rediss+sentinel:// and rediss+cluster:// are the same over TLS. OPTIONS, joined
        by "&": client_name=NAME; TLS: ca=FILE, cert=FILE and key=FILE (PEM), server_name=NAME,
        verify=no; sentinel_user=USER, sentinel_password=PASSWORD. Every part may be
        percent-encoded.
    clock: a ManualClock, for tests; in this process or with `testing`.
    max_keys: in this process, the bound on stored keys (10,000,000); of Redis, on those of the
        table that decides while it does not answer.
    deadline: Redis: seconds that one request may take in all, 0.001 ... 3600.
    prefix: Redis: what every key begins with ("sq:"), without braces.
    secret: Redis: key of the digest that replaces long subjects in key names.
    hash_subjects: Redis: replace every subject by its digest, not only those above 64 bytes.
    connections: Redis: connections shared by blocking callers, 1 ... 64 (4).
    testing: Redis: let the server use `clock`.

    Makes no connection: that happens at the first request. Each "memory://" store is a table of
    its own. When Redis goes away, comes back, or refuses what it should not, a line about it goes
    to logging.getLogger("saqiya"), after the call that noticed; a few lines, however long it lasts.
    Raises SaqiyaError for a bad URL or option.
    """

    __slots__ = ("__weakref__", "_hubs", "_native", "_ports")

    def __init__(
        self,
        url: str = "memory://",
        *,
        clock: ManualClock | None = None,
        max_keys: int | None = None,
        deadline: Seconds | None = 0.1,
        prefix: str | None = None,
        secret: bytes | None = None,
        hash_subjects: bool = False,
        connections: int | None = None,
        testing: bool = False,
    ) -> None:
        _check_types(
            url=(url, str),
            clock=(clock, ManualClock, type(None)),
            max_keys=(max_keys, int, type(None)),
            prefix=(prefix, str, type(None)),
            secret=(secret, bytes, type(None)),
            connections=(connections, int, type(None)),
        )
        if max_keys is not None and not 1 <= max_keys < 2**63:
            raise error("invalid", f"max_keys must be at least 1: {max_keys!r}")
        if connections is not None and not 1 <= connections <= 64:
            raise error("invalid", f"connections must be from 1 to 64: {connections!r}")
        self._native = _saqiya.Store(
            url,
            clock=None if clock is None else clock._native,
            max_keys=max_keys or 0,
            deadline_us=deadline_micros(deadline),
            prefix=prefix,
            secret=secret,
            connections=connections or 0,
            hash_subjects=hash_subjects,
            testing=testing,
        )
        # Connections of event loops; an entry goes with its loop.
        self._ports: WeakKeyDictionary[AbstractEventLoop, Port] = WeakKeyDictionary()
        # The same of hubs of gevent and eventlet: see _green.py.
        self._hubs: WeakKeyDictionary[Any, Any] | None = None

    @property
    def is_local(self) -> bool:
        """True when decisions are made in this process, without waiting."""
        return self._native.is_local

    def stats(self) -> StoreStats:
        """Counters of this store, as of now."""
        return StoreStats(**self._native.stats())

    def __repr__(self) -> str:
        return f"<saqiya.Store {'memory' if self.is_local else 'redis'}>"


_shared: WeakValueDictionary[str, Store] = WeakValueDictionary()


def open_store(store: Store | str | None) -> Store:
    """The store itself; None: a new one in this process; a URL: one per URL and process."""
    if isinstance(store, Store):
        return store
    if store is None:
        return Store()
    if not isinstance(store, str):
        raise TypeError(f"store must be a Store or a URL, not {type(store).__name__}")
    known = _shared.get(store)
    if known is not None:
        return known
    return _shared.setdefault(store, Store(store))
