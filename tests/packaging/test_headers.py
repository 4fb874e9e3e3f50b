"""The public headers compile alone, and the list of symbols is what the header declares."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from artefacts import HEADER, ROOT, run

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", f"-I{ROOT}/capi/include"]


@pytest.mark.parametrize(
    "compiler",
    [
        ["gcc", "-x", "c", "-std=c99", "-Wstrict-prototypes"],
        ["clang-14", "-x", "c", "-std=c99", "-Wstrict-prototypes"],
        ["g++", "-x", "c++", "-std=c++11", "-Wold-style-cast"],
        ["clang++-14", "-x", "c++", "-std=c++11"],
        ["g++", "-x", "c++", "-std=c++20", "-Wzero-as-null-pointer-constant"],
    ],
    ids=lambda compiler: f"{compiler[0]}-{compiler[3]}",
)
def test_c_header_alone(compiler: list[str], tmp_path: Path) -> None:
    # Twice, for the include guard; and a use, for the declarations to be complete.
    source = tmp_path / "alone"
    source.write_text(
        "#include <saqiya/saqiya.h>\n#include <saqiya/saqiya.h>\n"
        "int use(saqiya_decision *d);\nint use(saqiya_decision *d) { return d->outcome; }\n"
    )
    run(*compiler, *STRICT, source)


@pytest.mark.parametrize("compiler", ["g++", "clang++-14"])
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_cpp_header_alone(compiler: str, standard: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.cc"
    source.write_text("#include <saqiya/saqiya.hpp>\n#include <saqiya/saqiya.hpp>\n")
    run(compiler, f"-std={standard}", *STRICT, source)


def test_symbol_list_is_what_the_header_declares(symbols: list[str]) -> None:
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    declared = re.findall(r"SAQIYA_API\b[^;{}]*?\b(saqiya_\w+)\s*\(", text)
    assert symbols == sorted(declared)
    assert len(symbols) == len(set(symbols)) > 0


def test_installed_headers_name_no_dependency() -> None:
    for header in (ROOT / "capi/include/saqiya").iterdir():
        assert not re.search(r"absl|hiredis|openssl|ares\.h", header.read_text()), header
