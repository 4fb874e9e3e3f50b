"""The machine and the versions, for the head of the results."""

from __future__ import annotations

import json
import os
import platform
import re
from importlib.metadata import version
from pathlib import Path

from suite.places import BENCH
from suite.workers import output


def load_average() -> float:
    return os.getloadavg()[0]


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found.group(1).strip() if found else platform.machine()


def _first_number(text: str) -> str:
    found = re.search(r"\d+(\.\d+)+", text)
    return found.group(0) if found else text.strip()


def describe() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{_processor()}, {os.cpu_count()} cores (shared machine), {memory:.0f} GiB, "
        f"Linux {platform.release().split('-')[0]}; clients and redis-server on the same machine"
    )


def versions() -> str:
    packages = json.loads((BENCH / "node" / "package.json").read_text())["dependencies"]
    found = {
        "gcc": _first_number(output(["c++", "-dumpfullversion"])),
        "Redis": _first_number(output(["redis-server", "--version"])),
        "CPython": platform.python_version(),
        "Node": _first_number(output(["node", "--version"])),
        **{name: version(name) for name in ("limits", "redis", "uvloop")},
        **packages,
    }
    found["redis-py (without hiredis)"] = found.pop("redis")
    return ", ".join(f"{name} {number}" for name, number in found.items())
