"""The script that turns a Lua file into a header: exact, and loud about what it refuses."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from artefacts import ROOT, run

SCRIPT = ROOT / "packaging/cmake/embed_lua_script.cmake"


def embed(lua: str, folder: Path) -> str:
    (folder / "two_words.lua").write_text(lua)
    output = folder / "two_words.lua.h"
    run(
        "cmake",
        f"-DINPUT={folder / 'two_words.lua'}",
        f"-DOUTPUT={output}",
        "-DNAME=two_words.lua",
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


def test_the_product_s_scripts_lose_nothing_else(tmp_path: Path) -> None:
    scripts = sorted((ROOT / "core").rglob("*.lua"))
    assert scripts
    for script in scripts:
        lines = [line.strip() for line in script.read_text().splitlines()]
        code = [line for line in lines if line and not line.startswith("--")]
        assert script_of(embed(script.read_text(), tmp_path)).splitlines() == code, script
