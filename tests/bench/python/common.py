"""What the workers share. A worker measures one variant once and prints one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

CLASSIC_SCRIPT = (Path(__file__).parent.parent / "lua" / "classic.lua").read_text()


def walk(count: int) -> Iterator[int]:
    """A cheap walk over 0 ... count - 1 that looks random: the same in every variant."""
    x = 1
    while True:
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
        yield (x >> 8) % count


def percentile(ordered: list[float], share: float) -> float:
    return ordered[int(len(ordered) * share)]


def show(result: Mapping[str, object]) -> None:
    print(json.dumps(result), flush=True)
