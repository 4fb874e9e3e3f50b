"""What a limit of saqiya.flask consists of, and the limiters that are made of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Union, cast

from flask import current_app

from saqiya._failure import Failure
from saqiya._limiter import Limiter
from saqiya._policy import Policy
from saqiya._store import Store
from saqiya._units import error

KeyFunction = Callable[[], Union[str, bytes, None]]
PolicyFunction = Callable[[], Union[Policy, Limiter, None]]
OnePolicy = Union[Policy, Limiter, PolicyFunction]
Limit = Union[OnePolicy, Sequence[tuple[OnePolicy, KeyFunction]]]

POLICIES = "_saqiya_policies"  # on a view: its decorators' limits, innermost first
_MOST_PLANS = 1_000  # limiters kept of policies that functions have returned


class Failing:
    """What a limit does while Redis does not answer; None: as the extension says."""

    __slots__ = ("deny_cache", "failure", "fallback", "share")

    def __init__(
        self,
        failure: Failure | None,
        share: float | None,
        fallback: Policy | None,
        deny_cache: bool | None,
    ) -> None:
        self.failure = failure
        self.share = share
        self.fallback = fallback
        self.deny_cache = deny_cache

    def over(self, defaults: Failing) -> Failing:
        """This, completed; a share or fallback goes with "local", and they replace each other."""
        share, fallback = self.share, self.fallback
        alone = share is None and fallback is None
        failure = self.failure or (defaults.failure if alone else "local")
        if failure in ("local", None) and alone:
            share, fallback = defaults.share, defaults.fallback
        deny_cache = defaults.deny_cache if self.deny_cache is None else self.deny_cache
        return Failing(failure, share, fallback, deny_cache)

    def limiter(self, policy: Policy, name: str | None, store: Store | None = None) -> Limiter:
        return Limiter(
            policy,
            store=store,
            name=name,
            failure=self.failure or "local",
            share=self.share,
            fallback=self.fallback,
            deny_cache=True if self.deny_cache is None else self.deny_cache,
        )


class Part:
    """A policy and the key it is asked for. Its identity keeps equal policies apart."""

    __slots__ = ("key", "name", "number", "policy")

    def __init__(
        self, policy: OnePolicy, key: KeyFunction | None, name: str | None, number: int
    ) -> None:
        self.policy = policy
        self.key = key  # None: the extension's
        self.name = name
        self.number = number  # among the parts of its limit, from 1; 0: it is the only one

    def name_within(self, limit_name: str | None) -> str | None:
        """limit_name: of a limit that was not named; None leaves the limiter unnamed."""
        if self.name is not None or limit_name is None:
            return self.name
        return _fitting(f"{limit_name}/{self.number}" if self.number > 0 else limit_name)


class RouteLimit:
    """One limit, of an app or a view: parts that are decided together."""

    def __init__(
        self,
        limit: Limit,
        key: KeyFunction | None,
        name: str | None,
        cost: int,
        failing: Failing,
        view_name: str = "",
        position: int = 0,
    ) -> None:
        self.cost = cost
        self.failing = failing
        self.view_name = view_name
        self.position = position  # among the decorators of its view
        pairs = _pairs(limit)
        if pairs is None:
            self.parts: tuple[Part, ...] = (Part(cast(OnePolicy, limit), key, name, 0),)
        else:
            self.parts = tuple(
                Part(policy, key, None if name is None else f"{name}-{number}", number)
                for number, (policy, key) in enumerate(pairs, 1)
            )
        for part in self.parts:  # fails here, not at the first request
            if part.key is not None:
                need_callable(part.key, "key")
            _try_out(part, cost, failing)

    @property
    def is_plain(self) -> bool:
        """One policy that stays: its text can name it."""
        return len(self.parts) == 1 and not callable(self.parts[0].policy)

    def name_at(self, endpoint: str) -> str:
        """The same in every process that serves the app: endpoints are unique within one.

        The app's name comes first, so that apps on one Redis, which may all have an endpoint
        called "login", keep their own counts.
        """
        name = f"{current_app.name}/{endpoint}"
        if self not in getattr(current_app.view_functions.get(endpoint), POLICIES, ()):
            # A method of a class-based view, or a function that a view calls.
            name += f":{self.view_name}"
        return f"{name}#{self.position}" if self.position > 0 else name


class Bound:
    """What one RateLimit keeps for one app."""

    def __init__(self, store: Store, app_wide: RouteLimit | None, failing: Failing) -> None:
        self.store = store
        self.app_wide = app_wide
        self._failing = failing  # of routes that say nothing else
        self._fixed: dict[tuple[Part, str | None], Limiter] = {}
        self._plans: dict[tuple[Part, str | None, Any], Limiter] = {}

    def limiter(self, part: Part, limit: RouteLimit, endpoint: str | None) -> Limiter | None:
        """endpoint: None for the app-wide limit. None: this request is not limited."""
        if callable(part.policy):
            return self._plan(part, limit, endpoint, part.policy())
        limiter = self._fixed.get((part, endpoint))
        if limiter is None:
            made = self._make(part, limit, endpoint, part.policy)
            limiter = self._fixed.setdefault((part, endpoint), made)
        return limiter

    def _plan(
        self,
        part: Part,
        limit: RouteLimit,
        endpoint: str | None,
        policy: Policy | Limiter | None,
    ) -> Limiter | None:
        if policy is None or isinstance(policy, Limiter):
            return policy
        known = tuple(policy) if isinstance(policy, list) else policy
        limiter = self._plans.get((part, endpoint, known))
        if limiter is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()  # their state is in the store
            made = self._make(part, limit, endpoint, policy)
            limiter = self._plans.setdefault((part, endpoint, known), made)
        return limiter

    def _make(
        self, part: Part, limit: RouteLimit, endpoint: str | None, policy: Policy | Limiter
    ) -> Limiter:
        if isinstance(policy, Limiter):
            return policy
        if endpoint is not None:
            name: str | None = limit.name_at(endpoint)
        else:
            name = None if limit.is_plain else current_app.name
        failing = limit.failing.over(self._failing)
        return failing.limiter(policy, part.name_within(name), self.store)


def need_callable(value: object, what: str) -> None:
    if not callable(value):
        raise TypeError(f"{what} must be a function, not {type(value).__name__}")


def _try_out(part: Part, cost: int, failing: Failing) -> None:
    """In this process, for the mistakes that can be seen before the first request."""
    policy: Policy = "unlimited"
    if isinstance(part.policy, Limiter):
        policy = part.policy.policy
    elif not callable(part.policy):
        policy = part.policy
    own = isinstance(part.policy, Limiter)
    limiter = Limiter(policy) if own else failing.limiter(policy, part.name)
    asked = limiter.peek("", cost)
    if asked.outcome == "never" and limiter.peek("", 0).outcome != "never":
        message = f"cost {cost} is more than {limiter.policy!r} ever allows at once"
        raise error("invalid", message)


def _pairs(limit: Limit) -> list[tuple[OnePolicy, KeyFunction]] | None:
    """The (policy, key) pairs of a limit that is a list of them; None: it is one policy."""
    if not isinstance(limit, (list, tuple)) or not limit:
        return None
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in limit):
        return None
    return cast("list[tuple[OnePolicy, KeyFunction]]", list(limit))


def _fitting(name: str) -> str:
    """The name itself, or a digest of it where limiters cannot be called that."""
    if len(name) <= 64 and name.isascii() and name.isprintable():
        return name
    return hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:32]
