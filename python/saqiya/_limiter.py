"""The limiter for threads and plain programs."""

from __future__ import annotations

import time

from saqiya import _saqiya
from saqiya._policy import Policy, native_policy
from saqiya._saqiya import Decision
from saqiya._store import Store, open_store
from saqiya._units import Seconds, deadline_micros, wait_micros


class Limiter(_saqiya.Limiter):
    """A policy bound to a store: `if limiter.check("user:42"): ...`.

    policy: text such as "5/s burst 20", "100/minute", "unlimited", or a TokenBucket.
    store: a Store, or a URL. Limiters of this process that name the same Redis URL share one
        Store. None: a store in this process, of its own.
    name: names the policy in keys and HTTP fields, 1 to 64 printable ASCII characters. Limiters of
        one name on one store share their state and keep it when the limit changes.
    deadline: Redis: seconds that one request may take in all; None: the store's.

    Safe from any thread, and after fork(). Raises SaqiyaError for a bad policy, URL or name.
    """

    __slots__ = ("__weakref__", "store")

    store: Store

    def __init__(
        self,
        policy: Policy,
        *,
        store: Store | str | None = None,
        name: str | None = None,
        deadline: Seconds | None = None,
    ) -> None:
        self.store = open_store(store)
        super().__init__(self.store._native, native_policy(policy), name, deadline_micros(deadline))

    def acquire(self, key: str | bytes, cost: int = 1, *, timeout: Seconds | None) -> Decision:
        """As check(), waiting up to `timeout` for the tokens; sleeps until they are there.

        timeout: seconds, 0 or more, or a timedelta; None: as long as it takes. When the tokens
        would come later than that, or never, it returns at once and nothing is charged. Waiting
        callers are served in the order in which they came. An exception during the wait (a signal
        handler's) gives the tokens back. Real seconds are slept, whatever the store's clock.
        """
        decision = self.reserve(key, cost, wait_micros(timeout))
        if decision and decision.delay_us > 0:
            try:
                time.sleep(decision.delay)
            except BaseException:
                self.refund(key, decision)
                raise
        return decision

    def __repr__(self) -> str:
        name = "" if self.name is None else f", name={self.name!r}"
        return f"Limiter({self.policy!r}{name})"
