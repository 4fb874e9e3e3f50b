"""The script that turns a Lua file into a header: exact, and loud about what it refuses."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from artefacts import ROOT, run

SCRIPT = ROOT / "packaging/cmake/embed_lua_script.cmake"


def embed(lua: str, folder: Path, *options: str) -> str:
    (folder / "two_words.lua").write_text(lua)
    output = folder / "two_words.lua.h"
    run(
        "cmake",
        f"-DINPUT={folder / 'two_words.lua'}",
        f"-DOUTPUT={output}",
        "-DNAME=two_words.lua",
        *options,
        "-P",
        SCRIPT,
    )
    return output.read_text()


def script_of(header: str) -> str:
    found = re.search(r'kTwoWords = R"lua\((.*)\)lua";', header, re.DOTALL)
    assert found
    return found[1]


def test_drops_comments_and_indentation_only(tmp_path: Path) -> None:
    lua = (
        "-- about;\n\nlocal a = { 'x;y', \"[\" }  -- kept\n"
        "  if a[1] then\n\t--x\n    return '\\\\n'\n  end\n"
    )
    header = embed(lua, tmp_path)
    expected = "local a = { 'x;y', \"[\" }  -- kept\nif a[1] then\nreturn '\\\\n'\nend\n"
    assert script_of(header) == expected
    assert hashlib.sha1(expected.encode()).hexdigest() in header


@pytest.mark.parametrize("lua", ["--[[ block ]]\nreturn 1\n", "return [==[ x ]==]\n"])
def test_refuses_what_it_would_not_keep_exactly(lua: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"two_words\.lua"):
        embed(lua, tmp_path)


def test_puts_included_files_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "inner.lua").write_text("-- about\nlocal b = 2\n  --include: third.lua\n")
    (tmp_path / "third.lua").write_text("local c = 3")
    header = embed("local a = 1\nif a then\n  --include: inner.lua\nend\nreturn a\n", tmp_path)
    expected = "local a = 1\nif a then\nlocal b = 2\nlocal c = 3\nend\nreturn a\n"
    assert script_of(header) == expected
    assert hashlib.sha1(expected.encode()).hexdigest() in header


@pytest.mark.parametrize(
    ("lua", "parts", "message"),
    [
        ("--include: none.lua\n", "none.lua", "there is no none.lua"),
        ("--include: part.lua\n--include: part.lua\n", "part.lua", "included twice"),
        ("--include: part.lua\n", "other.lua", "is not named"),
    ],
)
def test_refuses_includes_the_build_would_miss(
    lua: str, parts: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "part.lua").write_text("return 1\n")
    with pytest.raises(AssertionError, match=message):
        embed(lua, tmp_path, f"-DPARTS={parts}")


def code_of(script: Path) -> Iterator[str]:
    """The lines that matter, with those of included files in their place."""
    for line in (line.strip() for line in script.read_text().splitlines()):
        if line.startswith("--include:"):
            yield from code_of(script.parent / line.partition(":")[2].strip())
        elif line and not line.startswith("--"):
            yield line


def test_the_product_s_script_loses_nothing_else(tmp_path: Path) -> None:
    script = ROOT / "core/redis/lua/script.lua"
    for part in script.parent.glob("*.lua"):
        shutil.copy(part, tmp_path)
    code = list(code_of(script))
    assert script_of(embed(script.read_text(), tmp_path)).splitlines() == code
    # No file lies there unused.
    text = "".join(part.read_text() for part in script.parent.glob("*.lua"))
    assert all(f"--include: {p.name}\n" in text for p in script.parent.glob("*.lua") if p != script)
