"""Rate limits for Flask.

    limiter = RateLimit(limit="5/s burst 20")      # app-wide, for each peer address

    def create_app():
        app = Flask(__name__)
        limiter.init_app(app)                      # or RateLimit(app, "5/s burst 20")

    @app.get("/search")
    @limiter.limit("10/minute")                    # besides the app-wide limit
    def search(): ...

    @app.get("/health")
    @limiter.exempt                                # from the app-wide limit
    def health(): ...

A refused request is answered with 429 and JSON through the app's normal response path. Every
response of a limited route carries the rate limit fields. The decision is `flask.g.rate_limit`.

While Redis does not answer, each limit does what its `failure` says: "local" (the default) goes on
limiting in this process, "open" lets requests through, "closed" and "error" answer 503 with
Retry-After. With W processes, share=1/W keeps the limit over all of them. The decision's source and
reason tell what happened.

A limit is a policy ("5/s burst 20", or "5/s; 1000/day", or what else saqiya.Limiter takes), or

- a function of the request that returns one, for plans: `lambda: g.user.limit`. It may return a
  Limiter, too, or None: no limit. Make such Limiters once, outside the function: one without a
  store has a store of its own, so that a new one at each request has counted nothing. Keep the
  counts of a user who changes the plan by returning policies of one algorithm;
- a list of (policy, key) pairs, decided together: all are charged, or none is.
      @limiter.limit([("20/min", peer_address), ("1000/min", lambda: "all")])

Configuration of an app, read by init_app: SAQIYA_STORE (a URL or Store), SAQIYA_LIMIT (the app-wide
limit), SAQIYA_FAILURE and SAQIYA_SHARE (what limits do that say nothing else). Without a store each
app keeps its state in its own process.

A policy with a queue delays: the request's thread sleeps until its turn before the view runs. Under
a concurrency rule a request holds its slot until it is over: a view that raises is, a streamed
response when it is closed. Choose a ttl above the longest request; after it the slot is free again.

When several limits apply (of the app, and of decorators) they are asked in order, the app-wide one
first; one that has allowed a request keeps its charge when a later one refuses.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar, Union, cast

from flask import Flask, Response, current_app, g, request
from flask.typing import ResponseReturnValue

from saqiya._failure import Failure
from saqiya._flask_limits import (
    POLICIES,
    Bound,
    Failing,
    KeyFunction,
    Limit,
    RouteLimit,
    need_callable,
)
from saqiya._limiter import Limiter, check_all, refund_all
from saqiya._policy import Policy
from saqiya._saqiya import Decision
from saqiya._store import Store, open_store

__all__ = ["RateLimit", "peer_address"]

RefusedHandler = Callable[[Decision], Union[ResponseReturnValue, None]]
View = TypeVar("View", bound=Callable[..., Any])

_EXTENSION = "saqiya"
_EXEMPT = "_saqiya_exempt"  # on a view: the RateLimits that leave it alone


def peer_address() -> str:
    """The default key: the address of the peer.

    Behind a reverse proxy that is the proxy's: put werkzeug's ProxyFix in front of the app. A peer
    without an address (a Unix socket) has the key "".
    """
    return request.remote_addr or ""


class RateLimit:
    """The extension; one object serves any number of apps, each with its own state.

    limit: the app-wide limit, for every request but static files; None: only decorated routes. A
        policy, a function that returns one, or a list of (policy, key) pairs.
    store: a Store or URL for apps whose configuration names none.
    key: returns what is limited, from the current request; None from it: do not limit.
    name: names the app-wide limit in keys and fields.
    fields: "all", "legacy" (X-RateLimit-*) or "draft" (RateLimit, RateLimit-Policy).
    skip_preflight: leave CORS preflight requests alone.
    on_refused: makes the answer to a refused request; None from it: the default one.
    failure, share, fallback, deny_cache: as of saqiya.Limiter; of the app-wide limit, and of routes
        that do not say them (the fallback: of the app-wide limit alone). A Limiter that is given
        as a policy has its own.

    Raises SaqiyaError for a bad limit, here and from limit(); also for a cost that the limit can
    never allow. Raises TypeError for other types.
    """

    def __init__(
        self,
        app: Flask | None = None,
        limit: Limit | None = None,
        *,
        store: Store | str | None = None,
        key: KeyFunction = peer_address,
        name: str | None = None,
        fields: str = "all",
        skip_preflight: bool = False,
        on_refused: RefusedHandler | None = None,
        failure: Failure | None = None,
        share: float | None = None,
        fallback: Policy | None = None,
        deny_cache: bool | None = None,
    ) -> None:
        if fields not in _FIELDS:
            raise ValueError(f"fields must be one of {', '.join(_FIELDS)}, not {fields!r}")
        if app is not None:
            _need_app(app)
        need_callable(key, "key")
        if on_refused is not None:
            need_callable(on_refused, "on_refused")
        # Fails here, not in init_app.
        failing = Failing(failure, share, fallback, deny_cache)
        RouteLimit("unlimited" if limit is None else limit, None, name, 1, failing)
        self._failing = Failing(failure, share, None, deny_cache)
        self._app_wide = Failing(None, None, fallback, None)
        self._limit = limit
        self._store = store
        self._key = key
        self._name = name
        self._fields = _FIELDS[fields]
        self._skip_preflight = skip_preflight
        self._on_refused = on_refused
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask, *, store: Store | str | None = None) -> None:
        """Limits the app. Call it before other extensions whose work a refusal should save."""
        _need_app(app)
        bound_by: dict[RateLimit, Bound] = app.extensions.setdefault(_EXTENSION, {})
        if self in bound_by:
            raise RuntimeError("this RateLimit has been initialised with this app already")
        if not bound_by:
            app.after_request(_after_request)
            app.teardown_request(_teardown_request)
        chosen = open_store(store or app.config.get("SAQIYA_STORE") or self._store)
        limit = app.config.get("SAQIYA_LIMIT", self._limit)
        configured = Failing(
            app.config.get("SAQIYA_FAILURE"), app.config.get("SAQIYA_SHARE"), None, None
        ).over(self._failing)
        RouteLimit("unlimited", None, None, 1, configured)  # what is wrong with it shows here
        app_wide = None
        if limit is not None:
            app_wide = RouteLimit(limit, None, self._name, 1, self._app_wide.over(configured))
        bound_by[self] = Bound(chosen, app_wide, configured)
        if app_wide is not None:
            app.before_request(self._before_request)

    def limit(
        self,
        limit: Limit,
        *,
        key: KeyFunction | None = None,
        name: str | None = None,
        cost: int = 1,
        failure: Failure | None = None,
        share: float | None = None,
        fallback: Policy | None = None,
        deny_cache: bool | None = None,
    ) -> Callable[[View], View]:
        """Limits one view, besides the app-wide limit; may be stacked. Put it below the route.

        Routes do not share their counts, however alike; a name that is given is shared by all
        limits that have it. The policies of a list of pairs are called name-1, name-2, ...
        """
        if key is not None:
            need_callable(key, "key")
        failing = Failing(failure, share, fallback, deny_cache)
        # Fails here, not at the first request.
        RouteLimit(limit, key, name, cost, failing.over(self._failing))

        def decorate(view: View) -> View:
            earlier: tuple[RouteLimit, ...] = getattr(view, POLICIES, ())
            view_name = getattr(view, "__qualname__", type(view).__qualname__)
            route = RouteLimit(limit, key, name, cost, failing, view_name, len(earlier))

            @functools.wraps(view)
            def limited(*args: Any, **kwargs: Any) -> Any:
                refusal = self._ask(route, request.endpoint or "")
                if refusal is not None:
                    return refusal
                return current_app.ensure_sync(view)(*args, **kwargs)

            setattr(limited, POLICIES, (*earlier, route))
            return cast(View, limited)

        return decorate

    def exempt(self, view: View) -> View:
        """Frees one view from the app-wide limit; limits of its own stay."""

        @functools.wraps(view)
        def exempted(*args: Any, **kwargs: Any) -> Any:
            return current_app.ensure_sync(view)(*args, **kwargs)

        setattr(exempted, _EXEMPT, (*getattr(view, _EXEMPT, ()), self))
        return cast(View, exempted)

    def _before_request(self) -> ResponseReturnValue | None:
        limit = self._bound().app_wide
        if limit is None or self._is_free():
            return None
        return self._ask(limit, None)

    def _ask(self, limit: RouteLimit, endpoint: str | None) -> ResponseReturnValue | None:
        """None: go on; else the answer to a refused request."""
        bound = self._bound()
        items: list[tuple[Limiter, str | bytes, int]] = []
        for part in limit.parts:
            key = (part.key or self._key)()
            limiter = None if key is None else bound.limiter(part, limit, endpoint)
            if key is not None and limiter is not None:
                items.append((limiter, key, limit.cost))
        if not items:
            return None
        if len(items) == 1:
            limiter, key, cost = items[0]
            decision = limiter.check(key, cost)
        else:
            decision = check_all(items)
        answers: list[_Answer] = g.setdefault("_saqiya_answers", [])
        for (limiter, _, _), told in zip(items, decision.items):
            answers.append((limiter, told, self._fields))
        earlier: Decision | None = g.get("rate_limit")
        g.rate_limit = decision if earlier is None else min(earlier, decision, key=_tightness)
        if not decision:
            return self._refuse(items[decision.item][0], decision)
        leases = _leases()
        for (limiter, key, _), told in zip(items, decision.items):
            if limiter._has_leases:
                leases.append((limiter, key, told))
        if decision.delay_us > 0:
            try:
                time.sleep(decision.delay)
            except BaseException:
                refund_all(items, decision)
                raise
        return None

    def _refuse(self, limiter: Limiter, decision: Decision) -> ResponseReturnValue:
        answer = None if self._on_refused is None else self._on_refused(decision)
        if answer is not None:
            return answer
        return Response(
            limiter.http_body(decision),
            limiter.http_status(decision),
            mimetype="application/json",
        )

    def _bound(self) -> Bound:
        bound_by: dict[RateLimit, Bound] = current_app.extensions.get(_EXTENSION, {})
        try:
            return bound_by[self]
        except KeyError:
            raise RuntimeError("call init_app(app) of this RateLimit first") from None

    def _is_free(self) -> bool:
        if self._skip_preflight and request.method == "OPTIONS":
            headers = request.headers
            if "Origin" in headers and "Access-Control-Request-Method" in headers:
                return True
        endpoint = request.endpoint
        if endpoint is None:
            return False  # an unknown path or a wrong method counts
        return _is_static(endpoint) or self in getattr(
            current_app.view_functions.get(endpoint), _EXEMPT, ()
        )


_FIELDS = {"all": 0, "legacy": 1, "draft": 2}
_Answer = tuple[Limiter, Decision, int]
_Lease = tuple[Limiter, Union[str, bytes], Decision]
_LEASES = "saqiya.leases"  # in the WSGI environment, which is of one request: `g` may be of several
_STREAMED = "saqiya.streamed"


def _need_app(app: object) -> None:
    if not isinstance(app, Flask):
        wanted = "RateLimit(app, limit), or RateLimit(limit=...)"
        raise TypeError(f"app must be a Flask, not {type(app).__name__}: write {wanted}")


def _leases() -> list[_Lease]:
    """What the current request holds."""
    return cast("list[_Lease]", request.environ.setdefault(_LEASES, []))


def _release(leases: list[_Lease]) -> None:
    while leases:
        limiter, key, decision = leases.pop()
        limiter.release(key, decision)


def _is_static(endpoint: str) -> bool:
    """Static files of the app and its blueprints."""
    if endpoint == "static":
        return current_app.has_static_folder
    blueprint, _, last = endpoint.rpartition(".")
    owner = current_app.blueprints.get(blueprint)
    return last == "static" and owner is not None and owner.has_static_folder


def _tightness(decision: Decision) -> tuple[bool, float]:
    """Sorts a refusal first, then by the share that remains."""
    share = decision.remaining / decision.limit if decision.limit > 0 else 0.0
    if decision.source == "open":
        share = 1.0  # nothing is known of it
    return decision.allowed, share


def _after_request(response: Response) -> Response:
    # Of several responses to one request (a later function has failed) the last one counts.
    request.environ[_STREAMED] = response.is_streamed
    if response.is_streamed:
        response.call_on_close(functools.partial(_release, _leases()))
    return _add_fields(response)


def _teardown_request(_error: BaseException | None) -> None:
    """A streamed response is still to be sent: it holds its slots until it is closed."""
    if not request.environ.get(_STREAMED, False):
        _release(_leases())


def _add_fields(response: Response) -> Response:
    """The legacy fields describe the tightest limit; the draft's list every limit that applied."""
    answers: list[_Answer] = g.get("_saqiya_answers", [])
    if not answers:
        return response
    for limiter, decision, fields in sorted(answers, key=lambda answer: _tightness(answer[1])):
        for name, value in limiter.http_headers(decision, fields).items():
            if name not in response.headers:
                response.headers[name] = value
            elif name in ("RateLimit", "RateLimit-Policy"):
                response.headers[name] += f", {value}"
    return response
