#!/usr/bin/env python3
"""Writes the tables of docs/policies.md from the rows that are tested, so that the page cannot say
what the parser does not do. With --check nothing is written, and a page that is not current fails.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import policy_errors  # noqa: E402
import policy_rules  # noqa: E402
import policy_table  # noqa: E402

SOURCE = "tests/vectors/policy_docs.py"
PAGE = HERE.parent.parent / "docs" / "policies.md"

# What the page shows, and what it means. Each text is a row of the tables that are tested.
EXAMPLES: list[tuple[str, str]] = [
    ("100/minute", "100 a minute on average, at most 100 at once"),
    ("5/s burst 20", "5 a second on average, at most 20 at once"),
    ("100/minute burst 10", "100 a minute on average, at most 10 at once"),
    ("1 per 2 seconds", "`per` is the same as `/`"),
    ("10_000/day", "underscores between digits are passed over"),
    ("100/15min", "a multiple of a unit"),
    ("1/1.5h", "decimals, when whole microseconds come of it"),
    ("10 PER 1 Second BURST 3", "words in any case"),
    ("token-bucket: 5/s burst 20", "the algorithm by its name; it is the one without a name, too"),
    ("leaky-bucket: 10/s", "a leaky bucket as a meter is the token bucket"),
    (
        "leaky-bucket: 10/s queue 50",
        "one every 100 ms; up to 50 wait for their turn, the rest is refused",
    ),
    ("leaky-bucket: 10/s burst 4 queue 50", "the same, with up to 4 at once"),
    ("10/s queue 50", "at most 10 at once, then one every 100 ms, up to 50 waiting"),
    ("fixed-window: 100/min", "100 in every minute of the clock"),
    ("sliding-window: 1000/hour", "1000 in an hour, the hour before weighted by its overlap"),
    ("sliding-log: 5/15min", "never more than 5 within any 15 minutes"),
    ("calendar: 50/day tz UTC", "50 from midnight to midnight"),
    ("calendar: 50/week tz Asia/Kathmandu", "50 from Monday to Sunday, in Nepal"),
    ("calendar: 10000/month tz Africa/Cairo", "10000 from the 1st to the 1st, in Egypt"),
    (
        "calendar: 10_000 per month anchor 31 tz Africa/Cairo",
        "months that begin on their 31st, or on their last day",
    ),
    ("calendar: 10000/month", "without a zone: UTC"),
    (
        "concurrency: 20 ttl 30s",
        "20 at the same time; a lease ends after 30 seconds unless renewed",
    ),
    ("concurrency:20 ttl 1.5 min", "a time to live is a number and a unit"),
    ("10 per second; 1000/hour", "two rules, both must allow"),
    ("5/s, 100/min", "`,` and `|` separate rules, too"),
    (
        "leaky-bucket: 10/s queue 50; concurrency: 20 ttl 30s; "
        "calendar: 10000/month tz Africa/Cairo",
        "rules of any algorithms",
    ),
    ("fixed-window: 0/s", "refuses everything"),
    ("unlimited", "allows everything and asks no store"),
]


def code(text: str) -> str:
    """A piece of code within a table."""
    return "`" + text.replace("|", "\\|") + "`"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def canonical_texts() -> dict[str, str]:
    made = policy_table.tables()
    rows = [*made["accepted"], *made["unlimited"]]
    return {row["text"]: row["canonical"] for row in rows if "canonical" in row}


def key_names() -> list[tuple[str, ...]]:
    """Of the policies of several rules that are short enough to show."""
    shown = [row for row in policy_rules.ACCEPTED if len(row[1]) > 1 and len(row[0]) < 100]
    wanted = ("10 per second; 1000/hour", "100/15min; fixed-window: 1000/h")
    first = [row for row in shown if row[0] in wanted]
    last = [row for row in policy_rules.ACCEPTED if row[2] == "b1s n cmonth"]
    return [(code(text), ", ".join(map(code, names.split()))) for text, _, names, _ in first + last]


def errors() -> str:
    blocks = [
        f"{text}\n{' ' * offset}^ {message}" for text, offset, message in policy_errors.EXPLAINED
    ]
    return "```text\n" + "\n\n".join(blocks) + "\n```"


def parts() -> dict[str, str]:
    canonical = canonical_texts()
    examples = [
        (code(text), means.replace("|", "\\|"), code(canonical[text])) for text, means in EXAMPLES
    ]
    return {
        "examples": table(("Policy", "Meaning", "Canonical text"), examples),
        "names": table(("Policy", "Names of its rules"), key_names()),
        "errors": errors(),
    }


def filled(page: str) -> str:
    """The page with what is between its marks made anew."""
    for name, text in parts().items():
        begin, end = f"<!-- begin {name}: {SOURCE} -->\n", f"<!-- end {name} -->"
        before, rest = page.split(begin)
        _, after = rest.split(end)
        page = f"{before}{begin}\n{text}\n\n{end}{after}"
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if not current")
    check = parser.parse_args().check
    page = PAGE.read_text("utf-8")
    current = filled(page)
    if page == current:
        print("current")
        return 0
    if check:
        print("not current: run tests/vectors/policy_docs.py")
        return 1
    PAGE.write_text(current, "utf-8")
    print("written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
