"""The reference reader of policy text, written from the grammar and not from the C++ code. Offsets
are in bytes.

    POLICY = "unlimited" | RULE { (";" | "," | "|") RULE }
    RULE   = [("token-bucket" | "leaky-bucket") ":"] RATE { "burst" COUNT | "queue" COUNT }
           | ("fixed-window" | "sliding-window" | "sliding-log") ":" RATE
           | "calendar" ":" COUNT PER ("day" | "week" | "month" | "year")
                            { "anchor" DAY | "tz" ZONE }
           | "concurrency" ":" COUNT "ttl" NUMBER UNIT
    RATE   = COUNT PER [NUMBER] UNIT
    PER    = "/" | "per"
"""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass, replace
from fractions import Fraction

from .model import MAX_CAPACITY, MAX_SPAN_US, RangeError, Rule

UNITS = {
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "min": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}  # from large to small
SPELLINGS = {
    "w": "w week weeks",
    "d": "d day days",
    "h": "h hr hrs hour hours",
    "min": "m min mins minute minutes",
    "s": "s sec secs second seconds",
    "ms": "ms millisecond milliseconds",
    "us": "us microsecond microseconds",
}
UNIT_OF = {word: UNITS[unit] for unit, words in SPELLINGS.items() for word in words.split()}
CALENDAR_SPELLINGS = {"day": "d day days", "week": "w week weeks"}
CALENDAR_SPELLINGS |= {"month": "month months", "year": "year years"}
CALENDAR_UNIT_OF = {
    word: unit for unit, words in CALENDAR_SPELLINGS.items() for word in words.split()
}

# Letter in key names; largest limit; longest period.
ALGORITHMS = {
    "token-bucket": ("b", MAX_CAPACITY, None),
    "fixed-window": ("f", MAX_CAPACITY, 2**50),
    "sliding-window": ("w", 2**32 - 1, 2**50),
    "sliding-log": ("l", 2**32 - 1, 2**47),
    "calendar": ("c", MAX_CAPACITY, None),
    "concurrency": ("n", 65535, 2**47),
}
OPTIONS = {
    "token-bucket": ("burst", "queue"),
    "calendar": ("anchor", "tz"),
    "concurrency": ("ttl",),
}
ALL_OPTIONS = {option for options in OPTIONS.values() for option in options}
MAX_RULES = 8

COUNT = re.compile(rb"[0-9]+(_[0-9]+)*")
DECIMALS = re.compile(rb"\.[0-9]+")
WORD = re.compile(rb"[A-Za-z-]+")
SPACE = re.compile(rb"[ \t]*")
SEPARATOR = re.compile(rb"[;,|]")
ZONE = re.compile(rb"[A-Za-z0-9_+/-]+")


class PolicyTextError(ValueError):
    """`offset` is the first byte of what could not be read; the length of the text at its end."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True)
class PolicyRule:
    """A rule of a policy; zero or empty for what its algorithm does not use."""

    algorithm: str
    limit: int
    tokens: int = 0  # token bucket: as written in a policy of several rules, else reduced
    period_us: int = 0  # concurrency: a lease's time to live
    queue: int = 0
    unit: str = ""
    anchor: int = 0
    zone: str = ""

    @property
    def bucket(self) -> Rule:
        """A token bucket's numbers, reduced."""
        return Rule.make(self.limit, self.tokens, self.period_us)

    def json(self) -> dict[str, object]:
        """As vectors tell it; a bucket that refuses everything has any rate."""
        if self.algorithm == "token-bucket":
            rate = {"tokens": self.tokens, "period_us": self.period_us} if self.limit else {}
            numbers = {"capacity": self.limit, **rate}
            numbers |= {"queue": self.queue} if self.queue else {}
        elif self.algorithm == "calendar":
            more = {"unit": self.unit, "anchor": self.anchor, "zone": self.zone}
            return {"algorithm": self.algorithm, "limit": self.limit, **more}
        else:
            period = "ttl_us" if self.algorithm == "concurrency" else "period_us"
            numbers = {"limit": self.limit, period: self.period_us}
        return {"algorithm": self.algorithm, **numbers}

    @property
    def period_name(self) -> str:
        if self.algorithm == "concurrency":
            return ""
        return self.unit or period_text(self.period_us)


class _Reader:
    def __init__(self, text: bytes) -> None:
        self.text, self.at = text, 0
        self.take(SPACE)

    def take(self, pattern: re.Pattern[bytes]) -> str | None:
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found.group().decode()

    def token(self, pattern: re.Pattern[bytes]) -> str | None:
        """A token and the blanks after it."""
        found = self.take(pattern)
        if found is not None:
            self.take(SPACE)
        return found

    def word(self) -> str:
        """The next word in lower case, not taken; empty if there is none."""
        found = WORD.match(self.text, self.at)
        return found.group().decode().lower() if found else ""

    def skip_word(self, word: str) -> bool:
        return self.word() == word and self.token(WORD) is not None

    def skip_byte(self, byte: bytes) -> bool:
        return self.token(re.compile(re.escape(byte))) is not None

    def fail(self, message: str) -> PolicyTextError:
        return PolicyTextError(self.at, message)

    @property
    def at_end(self) -> bool:
        return self.at == len(self.text)

    def count(self) -> int:
        start, digits = self.at, self.token(COUNT)
        if digits is None:
            raise PolicyTextError(start, "expected a count")
        value = int(digits.replace("_", ""))
        if value > MAX_CAPACITY:
            raise PolicyTextError(start, "a count must be at most 2^53 - 1")
        return value

    def period(self) -> int:
        start, multiple = self.at, Fraction(1)
        whole = self.take(COUNT)
        if whole is not None:
            decimals = self.take(DECIMALS) or ""
            if not decimals and self.text[self.at : self.at + 1] == b".":
                raise PolicyTextError(self.at + 1, "expected digits after the point")
            multiple = Fraction(whole.replace("_", "") + decimals)
        self.take(SPACE)
        unit = self.word()
        if unit.rstrip("s") in ("month", "year"):
            raise self.fail("months and years need `calendar:`, or say 30d")
        if unit not in UNIT_OF:
            raise self.fail("expected a unit")
        self.token(WORD)
        period = multiple * UNIT_OF[unit]
        if period.denominator != 1 or period < 1:
            raise PolicyTextError(start, "a period must be a whole number of microseconds")
        return int(period)

    def per(self) -> None:
        if not self.skip_byte(b"/") and not self.skip_word("per"):
            raise self.fail("expected '/' or 'per'")


def parse_policy(text: str) -> list[PolicyRule]:
    """The rules, none for `unlimited`; PolicyTextError otherwise."""
    reader = _Reader(text.encode())
    if reader.skip_word("unlimited"):
        if not reader.at_end:
            raise reader.fail("expected the end of the policy")
        return []
    rules: list[PolicyRule] = []
    while True:
        if rules and reader.word() == "unlimited":
            raise reader.fail("unlimited is alone")
        start, rule = reader.at, _rule(reader)
        if any((rule.algorithm, rule.period_name) == (r.algorithm, r.period_name) for r in rules):
            raise PolicyTextError(start, "there is such a rule already")
        rules.append(rule)
        if reader.at_end:
            break
        if len(rules) == MAX_RULES:
            raise reader.fail("too many rules")
        reader.token(SEPARATOR)
    if len(rules) == 1 and rules[0].algorithm == "token-bucket":
        # Its key has no period, so nothing tells how it was written.
        bucket = rules[0].bucket
        rules = [replace(rules[0], tokens=bucket.tokens, period_us=bucket.period_us)]
    return rules


def _rule(reader: _Reader) -> PolicyRule:
    """A rule, up to the end or a separator."""
    name_at, name = reader.at, reader.word()
    algorithm = "token-bucket" if name in ("", "leaky-bucket") else name
    if algorithm not in ALGORITHMS:
        raise PolicyTextError(name_at, "expected a count or an algorithm")
    if name:
        reader.token(WORD)
        if not reader.skip_byte(b":"):
            raise reader.fail("expected ':'")
    where = {"count": reader.at}
    values = {"count": reader.count()}
    unit = zone = ""
    if algorithm == "concurrency":
        if reader.word() != "ttl":
            raise reader.fail("expected ttl")
    else:
        reader.per()
        where["period"] = reader.at
        if algorithm == "calendar":
            unit = CALENDAR_UNIT_OF.get(reader.word(), "")
            if not unit:
                raise reader.fail("expected day, week, month or year")
            reader.token(WORD)
        else:
            values["period"] = reader.period()
    while (option := reader.word()) in ALL_OPTIONS:
        misplaced = option not in OPTIONS.get(algorithm, ()) or option in where
        if misplaced or (option == "anchor" and unit != "month"):
            raise reader.fail("expected something else")
        reader.token(WORD)
        where[option] = reader.at
        if option == "tz":
            zone = reader.token(ZONE) or ""
            if not zone:
                raise reader.fail("expected a zone")
        elif option == "ttl":
            if not reader.text[reader.at : reader.at + 1].isdigit():
                raise reader.fail("expected a duration")
            values[option] = reader.period()
        else:
            values[option] = reader.count()
    if not reader.at_end and SEPARATOR.match(reader.text, reader.at) is None:
        raise reader.fail("expected the end of the rule")
    if algorithm == "token-bucket":
        return _bucket(values, where, leaky=name == "leaky-bucket")
    return _check(
        PolicyRule(
            algorithm,
            values["count"],
            period_us=values.get("ttl", values.get("period", 0)),
            unit=unit,
            anchor=values.get("anchor", 1) if unit else 0,
            zone=(zone or "UTC") if unit else "",
        ),
        where,
    )


def _bucket(values: dict[str, int], where: dict[str, int], *, leaky: bool) -> PolicyRule:
    tokens, queue = values["count"], values.get("queue", 0)
    one_at_a_time = leaky and "queue" in values
    capacity = values.get("burst", min(tokens, 1) if one_at_a_time else tokens)
    try:
        made = Rule.make(capacity, tokens, values["period"])
    except RangeError as error:
        at = {"tokens": where["count"], "period": where["period"]}
        raise PolicyTextError(
            at.get(error.limit, where.get("burst", where["count"])), str(error)
        ) from error
    # Without a rate nothing is ever admitted: the queue is measured by any rate.
    us_each = Fraction(made.period_us, made.tokens) if made.tokens else Fraction(1)
    if queue * us_each > MAX_SPAN_US:
        raise PolicyTextError(where["queue"], "the queue takes too long: 2^50")
    return PolicyRule("token-bucket", capacity, tokens, values["period"], queue)


def _check(rule: PolicyRule, where: dict[str, int]) -> PolicyRule:
    _, max_limit, max_period = ALGORITHMS[rule.algorithm]
    if rule.limit > max_limit:
        raise PolicyTextError(where["count"], f"the limit must be at most {max_limit}")
    if max_period is not None and rule.period_us > max_period:
        at = where["ttl"] if rule.algorithm == "concurrency" else where["period"]
        raise PolicyTextError(at, f"the period must be at most {max_period} us")
    if rule.unit and not 1 <= rule.anchor <= 31:
        raise PolicyTextError(where["anchor"], "the anchor must be 1 to 31")
    if rule.zone and rule.zone != "UTC" and not _is_zone(rule.zone):
        raise PolicyTextError(where["tz"], "no such zone")
    return rule


def _is_zone(name: str) -> bool:
    if name.startswith("/") or name == "localtime" or len(name) > 64:
        return False
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def parse(text: str) -> Rule | None:
    """The rule of a policy that is one token bucket without a queue, or None for `unlimited`."""
    rules = parse_policy(text)
    if not rules:
        return None
    assert [(r.algorithm, r.queue) for r in rules] == [("token-bucket", 0)], text
    return rules[0].bucket


# -- Canonical text and names ---------------------------------------------------------------------


def period_text(period_us: int) -> str:
    """In the largest unit that divides it, with its number: 15min, 1s."""
    unit, micros = next((u, m) for u, m in UNITS.items() if period_us % m == 0)
    return f"{period_us // micros}{unit}"


def _rate_text(count: int, period_us: int) -> str:
    return f"{count}/{re.sub('^1(?=[a-z])', '', period_text(period_us))}"


def canonical(rule: Rule) -> str:
    """The shorter of a whole count per s, min, h, d, w and the reduced numbers; then the burst."""
    rate = _rate_text(rule.tokens, rule.period_us)
    for unit in ("s", "min", "h", "d", "w"):
        count = Fraction(rule.tokens * UNITS[unit], rule.period_us)
        if count.denominator == 1 and count <= MAX_CAPACITY:
            rate = min(f"{count}/{unit}", rate, key=len)
            break
    return f"{rate} burst {rule.capacity}"


def canonical_policy(rules: list[PolicyRule]) -> str:
    if not rules:
        return "unlimited"
    if len(rules) == 1 and rules[0].algorithm == "token-bucket":
        rule = rules[0]
        return canonical(rule.bucket) + (f" queue {rule.queue}" if rule.queue else "")
    return "; ".join(_rule_text(rule) for rule in rules)


def _rule_text(rule: PolicyRule) -> str:
    if rule.algorithm == "token-bucket":
        queue = f" queue {rule.queue}" if rule.queue else ""
        return f"{_rate_text(rule.tokens, rule.period_us)} burst {rule.limit}{queue}"
    head = rule.algorithm + ": "
    if rule.algorithm == "calendar":
        anchor = f" anchor {rule.anchor}" if rule.anchor != 1 else ""
        return f"{head}{rule.limit}/{rule.unit}{anchor} tz {rule.zone}"
    if rule.algorithm == "concurrency":
        return f"{head}{rule.limit} ttl {period_text(rule.period_us)}"
    return head + _rate_text(rule.limit, rule.period_us)


def names(rules: list[PolicyRule]) -> list[str]:
    """What the rules are called in key names."""
    letters = [ALGORITHMS[rule.algorithm][0] for rule in rules]
    if len(rules) == 1:
        return letters
    return [letter + rule.period_name for letter, rule in zip(letters, rules, strict=True)]
