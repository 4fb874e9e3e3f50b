"""The artefacts under test, each built once a session by its own recipe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from artefacts import HEADER, ROOT, run

from support.redis_server import RedisServer


@pytest.fixture(scope="session")
def version() -> str:
    text = HEADER.read_text()
    parts = (
        re.search(rf"#define SAQIYA_VERSION_{part} (\d+)", text)
        for part in ("MAJOR", "MINOR", "PATCH")
    )
    return ".".join(part[1] for part in parts if part)


@pytest.fixture(scope="session")
def symbols() -> list[str]:
    return (ROOT / "capi/saqiya.symbols").read_text().split()


@pytest.fixture(scope="session")
def python_dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    output = tmp_path_factory.mktemp("python-dist")
    run("packaging/wheel/build", output)
    return output


@pytest.fixture(scope="session")
def npm_dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the two npm tarballs."""
    output = tmp_path_factory.mktemp("npm-dist")
    run("packaging/npm/build", output)
    return output


@pytest.fixture(scope="session")
def c_prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix with the C library, moved after the installation: nothing may know where it was."""
    folder = tmp_path_factory.mktemp("c")
    deps = run("packaging/deps/build").strip()
    run("cmake", "--preset", "static", f"-DCMAKE_PREFIX_PATH={deps}")
    run("cmake", "--build", "--preset", "static", "--target", "saqiya")
    run(
        "cmake",
        "--install",
        "build/static",
        "--strip",
        "--component",
        "c",
        "--prefix",
        folder / "old",
    )
    (folder / "old").rename(folder / "moved")
    return folder / "moved"


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with RedisServer() as server:
        yield server.url
