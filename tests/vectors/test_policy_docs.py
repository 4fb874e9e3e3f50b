"""The tables of docs/policies.md are those of the rows that are tested."""

import policy_docs
import policy_errors
import pytest

from support.policy_text import SPELLINGS, PolicyTextError, parse_policy


def test_current() -> None:
    page = policy_docs.PAGE.read_text("utf-8")
    assert policy_docs.filled(page) == page, "run tests/vectors/policy_docs.py"


@pytest.mark.parametrize(
    "text",
    ["| `5/s burst 20` |", "rule 1 is a token-bucket", "`b1s`, `n`, `cmonth`", "`unlimited` |"],
)
def test_a_page_that_is_not_current_is_noticed(text: str) -> None:
    page = policy_docs.PAGE.read_text("utf-8")
    broken = page.replace(text, "something else")
    assert broken != page
    assert policy_docs.filled(broken) == page


def test_every_unit_is_told() -> None:
    page = policy_docs.PAGE.read_text("utf-8")
    for unit, words in SPELLINGS.items():
        row = next(line for line in page.splitlines() if line.strip().startswith(f"| `{unit}` |"))
        assert sorted(row.replace("`", "").replace(",", "").replace("|", "").split()) == sorted(
            words.split()
        )


# What may follow the text before an error. A second concurrency rule is never right, but that is
# found at its end.
ENDS = (
    *("", "1/s", "/s", "7/s", "s", "11s", "1", "1 ttl 1s", " ttl 1s", ":1/s", "month", "UTC"),
    *("1/12345us", "/day", "1/day"),
    "fixed-window: 1/12345us",
)


@pytest.mark.parametrize(
    ("text", "offset"),
    [row[:2] for row in (*policy_errors.REFUSED, *policy_errors.EXPLAINED)],
)
def test_what_is_before_an_error_is_no_error(text: str, offset: int) -> None:
    def is_right(end: str) -> bool:
        try:
            parse_policy(text.encode()[:offset].decode() + end)
        except PolicyTextError as error:
            return error.offset < offset  # of a rule as a whole
        return True

    assert any(map(is_right, ENDS))
