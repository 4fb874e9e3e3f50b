"""Running commands and looking into binaries, for the packaging tests."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "capi/include/saqiya/saqiya.h"


def run(*args: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """Runs a command, returns its standard output; its whole output is in the failure."""
    done = subprocess.run(
        [str(arg) for arg in args],
        cwd=cwd,
        env=clean_environment() | (env or {}),
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, f"{args}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    return done.stdout


def clean_environment() -> dict[str, str]:
    """This environment without what could lead a program back into the build tree."""
    leaks = {"PYTHONPATH", "NODE_PATH", "SAQIYA_NATIVE_PATH", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH"}
    return {name: value for name, value in os.environ.items() if name not in leaks}


def exported(binary: Path) -> list[str]:
    """The dynamic symbols that a binary defines, sorted; version nodes (type A) left out."""
    rows = [line.split() for line in run("nm", "-D", "--defined-only", binary).splitlines()]
    return sorted(row[2].split("@")[0] for row in rows if row[1] != "A")


def imported(binary: Path) -> set[str]:
    """Undefined dynamic symbols that are neither weak nor the C library's."""
    rows = [line.split() for line in run("nm", "-D", "--undefined-only", binary).splitlines()]
    return {row[-1] for row in rows if row[-2] == "U" and "@GLIBC_" not in row[-1]}


def needed(binary: Path) -> set[str]:
    return set(re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", "-W", binary)))


C_LIBRARY = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
