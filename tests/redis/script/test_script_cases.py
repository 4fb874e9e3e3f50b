"""The script's edges: arithmetic at its limits, sizes, expiries, foreign values, failing writes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import ceil

import pytest
from script_client import Arg, Connection, Script, ServerError
from script_model import Leases, Log

from support.redis_server import RedisServer

NOW = 1_796_036_148_000_000
HOUR = 3_600_000_000
ID = b"\x00\r\n$%a.Z"  # any bytes will do

# One entry each that charges 1, with its letter.
ASKS: dict[str, list[Arg]] = {
    "b": ["b", 1, 1000, 0, 100_000, 0],
    "f": ["f", 1, 5, HOUR],
    "c": ["c", 1, 5, 2, NOW - HOUR, NOW + 1, NOW + HOUR],
    "w": ["w", 1, 5, HOUR],
    "l": ["l", 1, 5, HOUR],
    "n": ["n", 1, 5, HOUR, ID],
}
# The same, of what cannot pass though the key is new.
REFUSED: dict[str, list[Arg]] = {
    "b": ["b", 1, 1000, 0, 999, 0],
    "f": ["f", 6, 5, HOUR],
    "c": ["c", 6, 5, 2, NOW - HOUR, NOW + 1, NOW + HOUR],
    "w": ["w", 6, 5, HOUR],
    "l": ["l", 6, 5, HOUR],
    "n": ["n", 6, 5, HOUR, ID],
}
# Adjustments of such a charge made at NOW.
CHANGES: dict[str, list[Arg]] = {
    "b": ["b", 1, 1000, 0, NOW + 1000, 0, 0, 0],
    "f": ["f", -1, NOW - NOW % HOUR + HOUR],
    "c": ["c", 1, NOW + 1],
    "w": ["w", 1, NOW - NOW % HOUR + HOUR, HOUR],
    "l": ["l", 1, NOW, HOUR],
    "n": ["n", 1, ID],
    "m": ["m", 2 * HOUR, ID],
}


def changes_made(connection: Connection) -> int:
    """How many writes the server has counted."""
    text = connection("INFO", "persistence")
    assert isinstance(text, bytes)
    return int(text.split(b"rdb_changes_since_last_save:")[1].split()[0])


def calls_of(connection: Connection, command: str) -> int:
    text = connection("INFO", "commandstats")
    assert isinstance(text, bytes)
    parts = text.split(b"cmdstat_" + command.encode() + b":calls=")
    return int(parts[1].split(b",")[0]) if len(parts) > 1 else 0


def error_of(reply: list[object]) -> str:
    assert len(reply) == 1
    assert isinstance(reply[0], ServerError), reply
    return str(reply[0].args[0])


# Arithmetic.


def test_weighs_the_window_before_exactly(script: Script) -> None:
    connection, numbers = script.connection, random.Random(4)
    largest = (2**32 - 1, 2**50)
    shapes = [(*largest, x) for x in (1, 2, 2**49, 2**50 - 1, 2**50)]
    shapes += [(2**32 - 1, 2**50 - 1, x) for x in (1, 2**50 - 2, 2**50 - 1)]
    shapes += [(2**32 - 1, 2**21 + d, 2**21 + e) for d in (-1, 0, 1) for e in (-2, -1)]
    for _ in range(1500):
        previous = numbers.randint(1, 2 ** numbers.randint(1, 32) - 1)
        period = numbers.randint(2, 2 ** numbers.randint(2, 50))
        shapes.append((previous, period, numbers.randint(1, period)))
    for previous, period, x in shapes:
        # As x = end - now goes, the end may be anywhere.
        end = NOW + x
        connection("SET", "w", f"{end} {previous} 0")
        weighted = ceil(previous * x / 1) if period == 1 else -(-previous * x // period)
        for limit, fits in ((weighted + 1, 1), (weighted, 0)):
            reply = script(NOW, ["w"], 1, "g", 1, 0, "w", 1, limit, period)
            assert reply == [fits, end, previous, 0], (previous, period, x)


def test_counts_up_to_the_largest_cost(script: Script) -> None:
    most = 2**53 - 1
    end = NOW - NOW % HOUR + HOUR
    ask: list[Arg] = [1, "g", 1, 1, "f", most, most, HOUR]
    assert script(NOW, ["f"], *ask) == [1, end, 0]
    assert script(NOW, ["f"], *ask) == [0, end, most]
    assert script(NOW, ["f"], 1, "a", 1, "f", most, end) == [1, end, most]
    assert script(NOW, ["f"], 1, "a", 1, "f", -most, end) == [1, end, 0]
    assert script.connection("EXISTS", "f") == 0


def test_a_cost_above_the_limit_waits_for_everything(script: Script) -> None:
    script(NOW, ["l"], 1, "g", 1, 1, "l", 2, 5, HOUR)
    assert script(NOW, ["l"], 1, "g", 1, 1, "l", 9, 5, HOUR) == [0, 2, NOW + HOUR, NOW + HOUR]
    assert script(NOW, ["none"], 1, "g", 1, 1, "l", 9, 5, HOUR) == [0, 0, 0, 0]


def test_a_calendar_that_does_not_hold_now_does_nothing(script: Script) -> None:
    before = changes_made(script.connection)
    for edges in ([NOW - 2, NOW - 1, NOW], [NOW + 1, NOW + 2, NOW + 3]):
        reply = script(NOW, ["f", "c"], 1, "g", 2, 1, *ASKS["f"], "c", 1, 5, 2, *edges)
        assert error_of(reply).startswith("SAQIYARANGE ")
    assert changes_made(script.connection) == before
    reply = script(NOW, ["c"], 1, "g", 1, 1, "c", 1, 5, 2, NOW - 1, NOW, NOW + 1)
    assert reply == [1, NOW + 1, 0]


# What is written, and how.


@pytest.mark.parametrize("kind", ASKS)
def test_writes_nothing_unless_something_is_charged(script: Script, kind: str) -> None:
    before = changes_made(script.connection)
    read_only = list(ASKS[kind])
    read_only[2 if kind == "b" else 1] = 0
    assert script(NOW, ["k"], 1, "g", 1, 0, *ASKS[kind])[0] == 1
    assert script(NOW, ["k"], 1, "g", 1, 1, *REFUSED[kind])[0] == 0
    assert script(NOW, ["k"], 1, "g", 1, 1, *read_only)[0] == 1
    # Refused by the other entry, whichever comes first.
    for first, second in ((ASKS, REFUSED), (REFUSED, ASKS)):
        args = [*first[kind], *second["f"]]
        assert script(NOW, ["k", "other"], 1, "g", 2, 1, *args)[0] == 0
    for change in (kind, "m" if kind == "n" else kind):
        assert script(NOW, ["k"], 1, "a", 1, *CHANGES[change])[0] == 0
    assert changes_made(script.connection) == before
    assert script.connection("DBSIZE") == 0


@pytest.mark.parametrize("kind", [*ASKS, "m"])
def test_a_change_to_the_same_writes_nothing(script: Script, kind: str) -> None:
    ask = ASKS["n" if kind == "m" else kind]
    assert script(NOW, ["k"], 1, "g", 1, 1, *ask)[0] == 1
    before = changes_made(script.connection)
    change = list(CHANGES[kind])
    change[2 if kind == "b" else 1] = HOUR if kind == "m" else 0
    reply = script(NOW, ["k"], 1, "a", 1, *change)
    assert reply[0] == (0 if kind == "b" else 1)
    assert changes_made(script.connection) == before


@pytest.mark.parametrize("kind", ASKS)
def test_the_values_of_keys_live_as_long_as_they_count(script: Script, kind: str) -> None:
    day = 24 * HOUR
    asks = {
        "b": ["b", 1, day, 0, day, 0],
        "f": ["f", 1, 5, day],
        "c": ["c", 1, 5, 1, NOW - 1, NOW + day],
        "w": ["w", 1, 5, day],
        "l": ["l", 1, 5, day],
        "n": ["n", 1, 5, day, ID],
    }
    window_ends = NOW - NOW % day + day
    dead = {"f": window_ends, "w": window_ends + day}.get(kind, NOW + day)
    assert script(NOW, ["k"], 1, "g", 1, 1, *asks[kind])[0] == 1
    px = (dead - NOW + 1999) // 1000
    left = script.connection("PTTL", "k")
    assert isinstance(left, int)
    assert px - 60_000 < left <= px  # up to a minute has gone by since
    # Under test no key lives shorter than an hour; else as short as a millisecond.
    script(NOW, ["short"], 1, "g", 1, 1, "b", 1, 10, 0, 10, 0)
    assert HOUR // 1000 - 60_000 < script.connection("PTTL", "short") <= HOUR // 1000
    script(None, ["real"], 1, "g", 1, 1, "n", 1, 1, 60_000_000, ID)
    assert 0 < script.connection("PTTL", "real") <= 60_001


@pytest.mark.parametrize(
    "entry",
    [
        ["b", 1, 60_000_000, 0, 600_000_000, 0],
        ["f", 1, 5, 3_600_000_000],
        ["c", 1, 5, 1, 0, 2**52],
        ["w", 1, 5, 3_600_000_000],
        ["l", 1, 5, 3_600_000_000],
        ["n", 1, 5, 3_600_000_000, ID],
    ],
)
def test_an_expiry_that_was_taken_away_comes_back_with_the_next_charge(
    script: Script, entry: list[object]
) -> None:  # C4
    script(None, ["k"], 1, "g", 1, 1, *entry)
    assert script.connection("PERSIST", "k") == 1
    script(None, ["k"], 1, "g", 1, 1, *entry)
    assert script.connection("PTTL", "k") > 0


def test_a_window_before_counts_until_the_end_of_the_one_under_way(script: Script) -> None:
    day = 24 * HOUR
    end = NOW - NOW % day + day
    script(NOW, ["w"], 1, "g", 1, 1, "w", 2, 9, day)
    script(end + 1, ["w"], 1, "g", 1, 1, "w", 1, 9, day)
    # Given back, only the earlier charge is left.
    assert script(end + 1, ["w"], 1, "a", 1, "w", -1, end + day, day) == [1, end + day, 2, 0]
    px = (day - 1 + 1999) // 1000
    assert px - 60_000 < script.connection("PTTL", "w") <= px


def test_the_server_s_clock(script: Script) -> None:
    keys = list("bfwln")
    args: list[Arg] = [arg for key in keys for arg in ASKS[key]]
    connection = script.connection
    connection("CONFIG", "RESETSTAT")
    reply = connection("EVALSHA", script.digest, 10, *keys, *"BFWLN", "", 2, "g", 5, 1, *args)
    seconds, micros = connection("TIME")
    now = reply[0]
    assert 0 <= int(seconds) * 1_000_000 + int(micros) - now < 600_000_000
    end = now - now % HOUR + HOUR
    assert reply[1:] == [1, -99_000, 0, end, 0, end, 0, 0, 0, 0, 0, 0, 0, 0] * 2
    # All keys are read at once, and each is written once.
    commands = ("mget", "exists", "get", "set", "del")
    assert [calls_of(connection, command) for command in commands] == [1, 1, 0, 10, 0]
    assert calls_of(connection, "time") == 2  # the script's and the test's


def test_sizes(script: Script) -> None:
    most = 2**53 - 1
    for i in range(100):
        script(NOW + i, ["l"], 1, "g", 1, 1, "l", 1, 100, HOUR)
        script(NOW + i, ["n"], 1, "g", 1, 1, "n", 1, 100, HOUR, b"%08d" % i)
    assert script.connection("STRLEN", "l") == 14 + 100 * 8
    assert script.connection("STRLEN", "n") == 14 + 100 * 16
    assert script.connection("MEMORY", "USAGE", "l") <= 1100
    script(NOW, ["f"], 1, "g", 1, 1, "f", most, most, 2**50)
    for at in (NOW, NOW + 2**50):
        script(at, ["w"], 1, "g", 1, 1, "w", 2**31, 2**32 - 1, 2**50)
    for key in "fw":
        assert script.connection("MEMORY", "USAGE", key) <= 128 + len(key)
    # What is dead goes with the next write.
    later = NOW + HOUR + 98
    script(later, ["l"], 1, "g", 1, 1, "l", 1, 100, HOUR)
    script(later, ["n"], 1, "a", 1, "m", HOUR, b"%08d" % 99)
    assert script.connection("GET", "l") == Log({NOW + 99: 1, later: 1}).stored()
    renewed = (later + HOUR, 1, b"%08d" % 99)
    assert script.connection("GET", "n") == Leases([renewed]).stored()


def test_costs_beyond_a_record_and_of_one_instant(script: Script) -> None:
    expected = 0
    for cost in (1, 2, 65_532, 1, 65_535, 200_000, 65_534, 70_000):
        expected += cost
        assert script(NOW, ["l"], 1, "g", 1, 1, "l", cost, 10**6, HOUR)[0] == 1
        assert script.connection("GET", "l") == Log({NOW: expected}).stored()
    for delta in (-1, 5, -200_000, -65_535, 1_000_000):
        expected += delta
        reply = script(NOW + 5, ["l"], 1, "a", 1, "l", delta, NOW, HOUR)
        assert reply == [1, expected, NOW + HOUR, 0]
        assert script.connection("GET", "l") == Log({NOW: expected}).stored()


# What others wrote.

FOREIGN = {
    "b": [b"", b"x", b"-1", b"1.5", b"1 2", b"9" * 17, b"9" * 400, b"5 3 2", b"1 1 4294967296"],
    "f": [b"", b"5", b"5 x", b"5 6 7", b"-5 6", b"5 6 ", b"9" * 17 + b" 1", b"5 " + b"9" * 17],
    "w": [b"", b"5 6", b"5 6 7 8", b"5 6 4294967296", b"5 4294967296 6", b"9" * 17 + b" 1 1"],
    "l": [b"", b"L", b"5", b"L" + bytes(12), b"L" + bytes(13), Leases([(NOW, 1, ID)]).stored()],
    "n": [b"", b"N", b"5", b"N" + bytes(12), b"N" + bytes(13), Log({NOW: 1, NOW + 1: 1}).stored()],
}
FOREIGN["c"], FOREIGN["m"] = FOREIGN["f"], FOREIGN["n"]


def log_bytes(last: int, total: int, records: list[tuple[int, int]]) -> bytes:
    body = b"".join(t.to_bytes(6, "big") + cost.to_bytes(2, "big") for t, cost in records)
    return b"L" + last.to_bytes(7, "big") + total.to_bytes(6, "big") + body


LOW = NOW % 2**48
FOREIGN["l"] += [
    log_bytes(NOW, 1, []),
    log_bytes(NOW, 1, [(LOW, 1)]) + b"x",
    log_bytes(NOW + 1, 1, [(LOW, 1)]),  # the last is not the last
    log_bytes(NOW, 1, [(LOW, 1), (LOW, 1)]),  # more than the total
    log_bytes(NOW, 65_536, [(LOW, 1)]),  # a total that so few records cannot have
    log_bytes(NOW, 0, [(LOW, 0)]),
    log_bytes(NOW, 9, [(LOW - HOUR, 1), (LOW - HOUR - 1, 1), (LOW, 1)]),  # not in order
    log_bytes(NOW, 2**32, [(LOW, 65_535)] * 65_538),
    log_bytes(2**53, 1, [(0, 1)]),
    log_bytes(NOW, 5, [(LOW - 2, 0), (LOW, 2)]),
]


@pytest.mark.parametrize("kind", FOREIGN)
def test_reports_foreign_values_and_leaves_them(script: Script, kind: str) -> None:
    connection = script.connection
    groups: list[list[Arg]] = [["a", 2, *CHANGES[kind], *CHANGES["f"]]]
    if kind in ASKS:
        groups += [["g", 2, write, *ASKS[kind], *ASKS["f"]] for write in (0, 1)]
    for value in FOREIGN[kind]:
        for group in groups:
            connection("FLUSHALL")
            connection("SET", "k", value)
            # A group of one request, and another request behind it, which is decided all the same.
            args = [1, *group, 1, "g", 1, 1, *ASKS["f"]]
            first, *rest = script(NOW, ["k", "f", "f"], *args)
            assert error_of([first]).startswith("SAQIYACORRUPT "), value
            assert rest == [1, NOW - NOW % HOUR + HOUR, 0]
            assert connection("GET", "k") == value
            assert connection("DBSIZE") == 2
    connection("DEL", "k")
    connection("RPUSH", "k", "x")
    for group in groups:
        assert error_of(script(NOW, ["k", "f"], 1, *group)).startswith("WRONGTYPE ")
    assert script(NOW, ["k"], 1, "x") == [0]
    assert connection("EXISTS", "k") == 0


def test_the_error_of_a_later_entry_takes_the_place_of_all(script: Script) -> None:
    connection = script.connection
    connection("SET", "bad", "x")
    args = [2, "g", 3, 1, *ASKS["w"], *ASKS["f"], *ASKS["b"], 1, "g", 1, 1, *ASKS["l"]]
    reply = script(NOW, ["w", "f", "bad", "w2", "f2", "b2", "l"], *args)
    assert error_of(reply[:1]).startswith("SAQIYACORRUPT ")
    end = NOW - NOW % HOUR + HOUR
    assert reply[1:] == [1, end, 0, 0, end, 0, -99_000, 0, 1, 0, 0, 0]
    assert sorted(connection("KEYS", "*")) == [b"b2", b"bad", b"f2", b"l", b"w2"]


def test_survives_any_binary_value(script: Script) -> None:
    """Whatever the bytes: an answer comes, and it is numbers in range or one error."""
    connection, numbers = script.connection, random.Random(11)
    log = Log({NOW - 10 * i: 1 + i % 3 for i in range(8)}).stored()
    leases = Leases([(NOW + i, 1 + i % 3, b"%08d" % i) for i in range(8)]).stored()
    errors = answers = 0
    for turn in range(6000):
        kind, valid = (("l", log), ("n", leases))[turn % 2]
        value = bytearray(valid)
        if numbers.random() < 0.3:
            value[1:] = numbers.randbytes(
                numbers.choice((13, 21, 29, 45, 61, numbers.randint(0, 90)))
            )
        else:
            for _ in range(numbers.randint(1, 3)):
                value[numbers.randrange(1, len(value))] = numbers.choice(
                    (0, 255, numbers.randint(0, 255))
                )
            if numbers.random() < 0.2:
                del value[numbers.randrange(1, len(value)) :]
        now = numbers.choice((NOW, NOW + 5, NOW - 10**7, 5, 2**52))
        connection("SET", "k", bytes(value))
        cost, limit = numbers.choice(((1, 4), (1, 100), (0, 5), (50, 60), (9, 5)))
        period = numbers.choice((1, 30, 2**47))
        if kind == "l":
            ask = ["l", cost, limit, period]
            changes = [["l", numbers.choice((-100, -1, 1, 2**52)), NOW - 10 * (turn % 8), period]]
        else:
            lease = b"%08d" % (turn % 8)
            ask = ["n", cost, limit, period, lease]
            changes = [["n", numbers.choice((-100, -1, 1, 2**52)), lease], ["m", period, lease]]
        group = numbers.choice(([1, "g", 1, 1, *ask], [1, "a", 1, *numbers.choice(changes)]))
        reply = script(now, ["k"], *group)
        if isinstance(reply[0], ServerError):
            assert error_of(reply).startswith("SAQIYACORRUPT ")
            assert connection("GET", "k") == value
            errors += 1
        else:
            assert len(reply) == 4
            assert all(isinstance(item, int) and 0 <= item < 2**53 for item in reply)
            answers += 1
    assert errors > 1000
    assert answers > 1000


# Keys that are read together.


def test_a_key_of_another_type_among_many(script: Script) -> None:
    script.connection("LPUSH", "list", "x")
    script(NOW, ["old"], 1, "g", 1, 1, *ASKS["f"])
    end = NOW - NOW % HOUR + HOUR
    keys = ["new", "old", "list", "other", "old", "new"]
    reply = script(NOW, keys, 3, "g", 2, 1, *ASKS["f"], *ASKS["f"])
    assert reply[:5] == [1, end, 0, end, 1]
    assert isinstance(reply[5], ServerError)
    assert reply[5].args[0].startswith("WRONGTYPE ")
    # It sees what those before it have written.
    assert reply[6:] == [1, end, 2, end, 1]
    assert sorted(script.connection("KEYS", "*")) == [b"list", b"new", b"old"]


def test_a_user_who_may_not_read_keys_together(script: Script, limited: Connection) -> None:
    end = NOW - NOW % HOUR + HOUR
    keys = [f"w{i}" for i in range(6)]
    args = [2, "g", 3, 1, *ASKS["f"], *ASKS["l"], *ASKS["b"]]
    expected = [1, end, 0, 0, 0, 0, -99_000, 0]
    reply = limited("EVALSHA", script.digest, 6, *keys, NOW, *args)
    assert reply == [NOW, *expected, *expected]


# Writes that fail.


@pytest.fixture
def limited(server: RedisServer, connection: Connection) -> Iterator[Connection]:
    """A user who may read all keys, but write only those that begin with "w"."""
    rights = ["on", "nopass", "~*", "+evalsha", "(~* +get)", "(~w* +set +del)"]
    connection("ACL", "SETUSER", "limited", "reset", *rights)
    other = Connection(server.socket_path)
    other("AUTH", "limited", "any")
    yield other
    other.close()
    connection("ACL", "DELUSER", "limited")


@pytest.mark.parametrize("kind", ASKS)
def test_a_write_that_fails_undoes_those_before_it(
    script: Script, limited: Connection, kind: str
) -> None:
    connection = script.connection
    day = 24 * HOUR
    asks = dict(ASKS, b=["b", 1, day, 0, 3 * day, 0])
    script(NOW, ["w_old"], 1, "g", 1, 1, *asks[kind])
    old, life = connection("GET", "w_old"), connection("PTTL", "w_old")
    connection("PERSIST", "w_old")
    keys = ["w_new", "w_old", "r", "w_never"]
    args = [1, "g", 4, 1, *asks["f"], *asks[kind], *asks["l"], *asks["f"]]
    after = [1, "g", 1, 1, *asks["f"]]
    reply = limited("EVALSHA", script.digest, 5, *keys, "w_after", NOW, *args, *after)
    assert "can't access at least one of the keys" in error_of(reply[1:2])
    assert reply[2:] == [1, NOW - NOW % HOUR + HOUR, 0]
    assert sorted(connection("KEYS", "*")) == [b"w_after", b"w_old"]
    assert connection("GET", "w_old") == old
    left = connection("PTTL", "w_old")
    assert abs(left - life) < 60_000  # both are less by the real time that has gone by


def test_an_adjustment_that_fails_undoes_those_before_it(
    script: Script, limited: Connection
) -> None:
    connection = script.connection
    for key in ("w_kept", "w_gone", "r"):
        script(NOW, [key], 1, "g", 1, 1, *ASKS["f"])
    before = {key: connection("GET", key) for key in ("w_kept", "w_gone", "r")}
    end = NOW - NOW % HOUR + HOUR
    args = [1, "a", 3, "f", 3, end, "f", -1, end, "f", 1, end]
    reply = limited("EVALSHA", script.digest, 3, "w_kept", "w_gone", "r", NOW, *args)
    assert "can't access at least one of the keys" in error_of(reply[1:])
    assert {key: connection("GET", key) for key in before} == before
    assert all(connection("PTTL", key) > 0 for key in before)


def test_an_adjustment_may_have_several_entries_of_one_key(
    script: Script, limited: Connection
) -> None:
    end = NOW - NOW % HOUR + HOUR
    script(NOW, ["w"], 1, "g", 1, 1, "f", 5, 9, HOUR)
    args: list[Arg] = ["f", -3, end, "f", 2, end]
    assert script(NOW, ["w", "w"], 1, "a", 2, *args) == [1, end, 2, 1, end, 4]
    old = script.connection("GET", "w")
    # Undone in turn, whether a write or a look fails.
    script(NOW, ["r"], 1, "g", 1, 1, *ASKS["f"])
    script.connection("SET", "x", "foreign")
    for other in "rx":
        reply = limited(
            "EVALSHA", script.digest, 3, "w", "w", other, NOW, 1, "a", 3, *args, *args[:3]
        )
        assert isinstance(reply[1], ServerError)
        assert len(reply) == 2
        assert script.connection("GET", "w") == old


# Arguments that are not understood.


@pytest.mark.parametrize(
    "args",
    [
        [1, "q"],
        [1, "g", 1, 1, "q", 1, 1, 1],
        [1, "g", 1, 1, "m", 1, 1, 1],
        [1, "a", 1, "q", 1, 1, 1],
        [1, "g", 0, 1],
    ],
)
def test_refuses_unknown_operations(script: Script, args: list[Arg]) -> None:
    with pytest.raises(ServerError, match="unknown operation"):
        script(NOW, ["k"], *args)
    assert script.connection("DBSIZE") == 0
