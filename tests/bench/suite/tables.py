"""Comparisons as rows of a Markdown table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from suite.workers import median

HEADER = ["what", "saqiya", "peer", "ratio (range over rounds)", "target", "met"]


@dataclass(frozen=True)
class Goal:
    """What a ratio or a figure should be; None as limit: no target, for information."""

    sign: str  # "≥" or "≤"
    limit: float | None
    unit: str = "×"

    def __str__(self) -> str:
        return "" if self.limit is None else f"{self.sign} {round(self.limit, 3):g} {self.unit}"

    def met(self, value: float) -> str:
        if self.limit is None:
            return ""
        good = value >= self.limit if self.sign == "≥" else value <= self.limit
        return "yes" if good else "**no**"


NO_GOAL = Goal("", None)


def at_least(limit: float, unit: str = "×") -> Goal:
    return Goal("≥", limit, unit)


def at_most(limit: float, unit: str = "×") -> Goal:
    return Goal("≤", limit, unit)


def figure(value: float, unit: str) -> str:
    """Three digits, thousands apart: enough for what is measured here."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".strip()


@dataclass
class Table:
    title: str
    notes: str
    header: list[str] = field(default_factory=lambda: list(HEADER))
    rows: list[list[str]] = field(default_factory=list)
    when: str = ""
    load: str = ""

    def compare(
        self,
        what: str,
        ours: Sequence[float],
        peer: Sequence[float],
        unit: str,
        peer_name: str,
        goal: Goal,
        *,
        inverse: bool = False,
    ) -> None:
        """A row: medians of both, and the median of the rounds' ratios, ours to the peer's.

        inverse: the peer's to ours, which says how many times faster when figures are times.
        """
        ratios = [p / o if inverse else o / p for o, p in zip(ours, peer)]
        ratio = median(ratios)
        spread = f"{ratio:.2f} ({min(ratios):.2f} – {max(ratios):.2f})"
        ours_text = figure(median(ours), unit)
        peer_text = f"{figure(median(peer), unit)}, {peer_name}"
        self.rows.append([what, ours_text, peer_text, spread, str(goal), goal.met(ratio)])

    def single(self, what: str, values: Sequence[float], unit: str, goal: Goal) -> None:
        """A row without a peer."""
        value = median(values)
        spread = f"{figure(min(values), '')} – {figure(max(values), '')}" if len(values) > 1 else ""
        self.rows.append([what, figure(value, unit), "", spread, str(goal), goal.met(value)])

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", self.notes, "", f"Measured {self.when}; {self.load}.", ""]
        lines += [_line(self.header), _line(["---"] * len(self.header))]
        lines += [_line(row) for row in self.rows]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
