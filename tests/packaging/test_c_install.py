"""The installed C library: consumed by pkg-config and by CMake, from a prefix that was moved."""

from __future__ import annotations

import re
from pathlib import Path

from artefacts import C_LIBRARY, ROOT, exported, imported, needed, run

CONSUMER = """
cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES C)
find_package(saqiya {version} REQUIRED)
add_executable(example example.c)
target_link_libraries(example PRIVATE saqiya::saqiya)
"""


def library_folder(prefix: Path) -> Path:
    return next(prefix.rglob("libsaqiya.so")).parent


def check_example(example: Path, environment: dict[str, str]) -> None:
    lines = run(example, env=environment).splitlines()
    assert len(lines) == 7
    expected = [f"request {i}: allowed, {5 - i} left" for i in range(1, 6)]
    assert lines[:5] == expected
    for line in lines[5:]:
        wait = re.fullmatch(r"request \d: denied, again in (\d+) us", line)
        assert wait, line
        assert 0 < int(wait[1]) <= 200_000


def test_exports_exactly_the_listed_symbols(c_prefix: Path, symbols: list[str]) -> None:
    library = library_folder(c_prefix) / "libsaqiya.so.0"
    assert exported(library) == symbols
    assert imported(library) == set()
    assert needed(library) <= C_LIBRARY
    assert "libsaqiya.so.0" in run("readelf", "-d", "-W", library)


def test_system_build_exports_the_same(symbols: list[str]) -> None:
    run("cmake", "--preset", "dev")
    run("cmake", "--build", "--preset", "dev", "--target", "saqiya")
    assert exported(ROOT / "build/dev/capi/libsaqiya.so") == symbols


def test_installs_the_expected_files(c_prefix: Path, version: str) -> None:
    library = library_folder(c_prefix).relative_to(c_prefix)
    files = {str(path.relative_to(c_prefix)) for path in c_prefix.rglob("*") if not path.is_dir()}
    assert files == {
        "include/saqiya/saqiya.h",
        "include/saqiya/saqiya.hpp",
        "share/doc/saqiya/LICENSE",
        "share/doc/saqiya/THIRD-PARTY.txt",
        f"{library}/libsaqiya.so",
        f"{library}/libsaqiya.so.0",
        f"{library}/libsaqiya.so.{version}",
        f"{library}/pkgconfig/saqiya.pc",
        f"{library}/cmake/saqiya/saqiyaConfig.cmake",
        f"{library}/cmake/saqiya/saqiyaConfigVersion.cmake",
        f"{library}/cmake/saqiya/saqiyaTargets.cmake",
        f"{library}/cmake/saqiya/saqiyaTargets-release.cmake",
    }


def test_nothing_installed_knows_a_path(c_prefix: Path) -> None:
    old = str(c_prefix.with_name("old"))
    for path in c_prefix.rglob("*"):
        if path.suffix in {".pc", ".cmake", ".h", ".hpp"}:
            text = path.read_text()
            assert str(ROOT) not in text, path
            assert old not in text, path


def test_example_by_pkg_config(c_prefix: Path, version: str, tmp_path: Path) -> None:
    environment = {"PKG_CONFIG_PATH": str(library_folder(c_prefix) / "pkgconfig")}
    assert run("pkg-config", "--modversion", "saqiya", env=environment).strip() == version
    flags = run("pkg-config", "--cflags", "--libs", "saqiya", env=environment).split()
    run(
        *("gcc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"),
        *(ROOT / "capi/example.c", "-o", tmp_path / "example", *flags),
    )
    check_example(tmp_path / "example", {"LD_LIBRARY_PATH": str(library_folder(c_prefix))})


def test_example_by_cmake(c_prefix: Path, version: str, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(CONSUMER.format(version=version))
    (tmp_path / "example.c").write_text((ROOT / "capi/example.c").read_text())
    run("cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={c_prefix}", cwd=tmp_path)
    run("cmake", "--build", "build", cwd=tmp_path)
    check_example(tmp_path / "build/example", {})


def test_destdir(tmp_path: Path, c_prefix: Path) -> None:
    environment = {"DESTDIR": str(tmp_path)}
    run(
        "cmake",
        "--install",
        "build/static",
        "--component",
        "c",
        "--prefix",
        "/usr",
        env=environment,
    )
    assert (tmp_path / "usr/include/saqiya/saqiya.h").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"usr"}
