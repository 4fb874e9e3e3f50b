"""The limiter for threads and plain programs, and several of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Union

from saqiya import _saqiya
from saqiya._failure import Failure, failure_arguments
from saqiya._policy import Policy, native_policy
from saqiya._saqiya import Decision
from saqiya._store import Store, open_store
from saqiya._units import Seconds, deadline_micros, wait_micros
from saqiya._waiting import acquire, pause_of


class Limiter(_saqiya.Limiter):
    """A policy bound to a store: `if limiter.check("user:42"): ...`.

    policy: text such as "5/s burst 20", "5/s; 1000/day", "concurrency: 20 ttl 30s", "unlimited"; a
        rule as numbers, such as TokenBucket(20, 5, 1.0); or a list of up to 8 rules of both kinds.
        Several rules are decided together: all are charged, or none is.
    store: a Store, or a URL. Limiters of this process that name the same URL share one Store, which
        lives while one of them does. None: a store in this process, of its own.
    name: names the policy in keys and HTTP fields, 1 to 64 printable ASCII characters. Limiters of
        one name on one store share their state and keep it when the limit changes.
    deadline: Redis: seconds that one request may take in all; None: the store's.
    failure: Redis: what becomes of checks and peeks that it does not answer:
        "local": they are decided in this process, by the same rules or the fallback;
        "open": they are allowed; "closed": they are denied (503 in HTTP);
        "error": the outcome is "unavailable", and the caller decides.
        The decision's source tells which way it was made, its reason why Redis did not answer.
    share: failure "local": the part of the limit that this process may let through, 0.000001 ... 1.
        With N processes and a share of 1/N all of them together keep the limit.
    fallback: failure "local": decide by this policy, of as many rules, instead of by a share.
    deny_cache: Redis: remember refusals of a single token bucket, for at most a second, so that a
        key that is refused again and again costs Redis little. A reset or refund by another process
        is seen when that second is over.

    In this process ("memory://") these four are without effect.

    Safe from any thread, and after fork(), also of servers that load the app before they fork. A
    call over Redis waits without the GIL; signal handlers (Ctrl-C) run when it is over, by the
    deadline at the latest. Under gevent and eventlet, where they have patched the process, only the
    greenlet waits. On the thread of a running event loop such a call warns once (RuntimeWarning,
    "saqiya: a blocking call ...", for warnings.filterwarnings): use AsyncLimiter there.

    Raises SaqiyaError for a bad policy, URL or name.
    """

    __slots__ = ("__weakref__", "_has_leases", "store")

    store: Store

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
        self.store = open_store(store)
        super().__init__(
            self.store._native,
            native_policy(policy),
            name,
            deadline_micros(deadline),
            *failure_arguments(failure, share, fallback, deny_cache),
        )
        self._has_leases = "concurrency:" in self.policy

    def acquire(self, key: str | bytes, cost: int = 1, *, timeout: Seconds | None) -> Decision:
        """As check(), waiting up to `timeout` until the request is allowed; sleeps meanwhile.

        timeout: seconds, 0 or more, or a timedelta; 0: one try, without waiting; None: as long as
        it takes. What would come later than that, or never, is answered at once and nothing is
        charged; so is a store that fails.

        Token buckets are reserved: waiting callers are served in the order in which they came, with
        one call to the store. With other rules it sleeps until the instant at which the request
        would pass, and tries again; under concurrency, where a slot may be released early, it looks
        again at least every 100 ms.

        When an exception (a signal handler's) ends the wait early, what was reserved is given back,
        unless others have queued behind it: then its turn is lost, and the spacing stays exact. The
        GIL is not held meanwhile. Real seconds are slept, whatever the store's clock.
        """
        return acquire(
            lambda max_wait_us: self.reserve(key, cost, max_wait_us),
            lambda decision: self.refund(key, decision),
            pause_of(((self, key, cost),)),
            wait_micros(timeout),
        )

    @contextmanager
    def hold(
        self, key: str | bytes, cost: int = 1, *, timeout: Seconds | None = 0
    ) -> Iterator[Decision]:
        """Concurrency: holds a slot for a block, `with limiter.hold("user:42") as decision: ...`.

        Raises nothing when it is refused: look at the decision, which is false then. timeout: as in
        acquire(). The slot is released at the end of the block, however it ends; what other rules
        of the policy have counted stays counted, or becomes what settle() says. A block that may
        run for longer than the rule's ttl calls renew(key, decision) in time. Raises TypeError when
        the policy has no concurrency rule.
        """
        need_leases(self)
        decision = self.acquire(key, cost, timeout=timeout)
        try:
            yield decision
        finally:
            if decision:
                self.release(key, decision)

    def __repr__(self) -> str:
        name = "" if self.name is None else f", name={self.name!r}"
        return f"Limiter({self.policy!r}{name})"


def need_leases(limiter: Limiter) -> None:
    if not limiter._has_leases:
        policy = limiter.policy
        raise TypeError(f"hold() needs a policy with a concurrency rule, not {policy!r}")


Item = Union[tuple[Limiter, Union[str, bytes]], tuple[Limiter, Union[str, bytes], int]]
"""What a limiter is asked for, together with others: (limiter, key) or (limiter, key, cost)."""


def check_all(items: Iterable[Item]) -> Decision:
    """Decides up to 16 items together: all are charged, or none is; one call to the store.

        decision = check_all([(per_user, user), (per_ip, address), (all_of_us, "", cost)])

    items: (limiter, key) or (limiter, key, cost), of one store. Items of one limiter and key are
        added up; unlimited ones are passed over. To an AsyncLimiter belongs saqiya.aio.check_all.

    The decision tells the item that bound, decision.item, and its rule, decision.rule; its
    retry_after is the longest of those that refuse. decision.items has what each item alone says:
    give these to the refund(), settle(), renew() or release() of that item's limiter, or the
    decision to refund_all(). Raises TypeError for other types; SaqiyaError for a cost or key
    outside the range, for limiters of different stores, and for limiters of one name with
    different rules on one key. Safe from any thread.
    """
    return _saqiya.check_all(items, 0)


def peek_all(items: Iterable[Item]) -> Decision:
    """What check_all() would say, charging nothing."""
    return _saqiya.peek_all(items)


def acquire_all(items: Iterable[Item], *, timeout: Seconds | None) -> Decision:
    """As check_all(), waiting up to `timeout` as Limiter.acquire() does.

    Waiting is by reservation where every rule of every item is a token bucket.
    """
    wanted = tuple(items)
    return acquire(
        lambda max_wait_us: _saqiya.check_all(wanted, max_wait_us),
        lambda decision: _saqiya.refund_all(wanted, decision),
        pause_of(wanted),
        wait_micros(timeout),
    )


def refund_all(items: Iterable[Item], decision: Decision) -> Decision:
    """Gives back what check_all() or acquire_all() took for these items; once, as Limiter.refund().

    Their costs do not matter. What was refunded, settled or released of one of them alone stays as
    it is. Outcome of the result: "allowed", something was
    given back; "denied", nothing was left to give; "unavailable", the store failed.
    """
    return _saqiya.refund_all(items, decision)
