"""Where things are."""

from __future__ import annotations

from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
ROOT = BENCH.parent.parent
BUILD = ROOT / "build" / "bench"
PROGRAMS = BUILD / "tests" / "bench"
KEPT = BUILD / "results"  # the last figures of each section, as JSON
RESULTS = BENCH / "RESULTS.md"
