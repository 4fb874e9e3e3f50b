"""The wheel and the sdist: contents, symbols, and use in an empty environment elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from artefacts import C_LIBRARY, ROOT, clean_environment, exported, imported, needed, run

SMOKE = """
from saqiya import Limiter

limiter = Limiter("1/h burst 3")
decisions = [limiter.check("user:42") for _ in range(4)]
assert [bool(d) for d in decisions] == [True, True, True, False], decisions
assert [d.remaining for d in decisions] == [2, 1, 0, 0], decisions
assert 3590 < decisions[3].retry_after <= 3600, decisions
assert limiter.check("another")
"""

# Other copies of what is inside our binary, loaded before it and after it.
NEIGHBOURS = """
import ctypes, hashlib, ssl
def neighbours():
    import hiredis
    reader = hiredis.Reader()
    reader.feed(b"$5\\r\\nhello\\r\\n")
    assert reader.gets() == b"hello"
    library = ctypes.CDLL("libhiredis.so.0.14", mode=ctypes.RTLD_GLOBAL)
    library.redisReaderCreate.restype = ctypes.c_void_p
    library.redisReaderFree.argtypes = [ctypes.c_void_p]
    library.redisReaderFree(library.redisReaderCreate())
    assert ctypes.CDLL("libcares.so.2", mode=ctypes.RTLD_GLOBAL).ares_library_init(1) == 0
    ssl.create_default_context()
    assert hashlib.sha256(b"").hexdigest().startswith("e3b0c442")
"""

# A subject above 64 bytes is digested by OpenSSL; the server is asked, so hiredis runs too.
OURS = """
import uuid
def ours(url):
    from saqiya import Limiter
    limiter = Limiter("1/h burst 2", store=url, deadline=10)
    key = uuid.uuid4().hex + "k" * 70
    decisions = [limiter.check(key) for _ in range(3)]
    assert [bool(d) for d in decisions] == [True, True, False], decisions
"""


def native(folder: Path) -> Path:
    (module,) = folder.rglob("_saqiya*.so")
    return module


@pytest.fixture(scope="module")
def wheel(python_dist: Path) -> Path:
    (path,) = python_dist.glob("*.whl")
    return path


def install(wheel: Path, folder: Path, *more: str) -> Path:
    """A new environment with the wheel in it; returns its Python."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin/python"
    run(python, "-m", "pip", "--disable-pip-version-check", "install", wheel, *more, cwd=folder)
    return python


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("empty") / "venv")


def test_wheel_contents(wheel: Path, version: str) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        f"saqiya/{path.relative_to(ROOT / 'python/saqiya')}"
        for path in (ROOT / "python/saqiya").rglob("*")
        if path.suffix in {".py", ".pyi"} or path.name == "py.typed"
    }
    info = f"saqiya-{version}.dist-info"
    others = {name for name in names - sources if not name.startswith(f"{info}/")}
    assert sources <= names
    assert len(others) == 1
    assert others.pop().startswith("saqiya/_saqiya.")
    assert {f"{info}/licenses/LICENSE", f"{info}/licenses/packaging/THIRD-PARTY.txt"} <= names
    metadata = zipfile.ZipFile(wheel).read(f"{info}/METADATA").decode()
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    assert all("extra ==" in line for line in required)


def test_module_exports_one_name_and_needs_the_c_library_only(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    module = native(tmp_path)
    assert exported(module) == ["PyInit__saqiya"]
    assert {name for name in imported(module) if not name.startswith(("Py", "_Py"))} == set()
    assert needed(module) <= C_LIBRARY


def test_works_in_an_empty_environment(python: Path, version: str, tmp_path: Path) -> None:
    run(python, "-c", SMOKE, cwd=tmp_path)
    where = run(python, "-c", "import saqiya; print(saqiya.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(python.parents[1])
    run(python, "-m", "pip", "check", cwd=tmp_path)
    shown = run(python, "-m", "pip", "show", "saqiya", cwd=tmp_path)
    assert f"Version: {version}\n" in shown


@pytest.mark.parametrize("first", ["neighbours", "ours"])
def test_beside_other_copies_of_its_libraries(
    first: str, wheel: Path, tmp_path: Path, redis_url: str
) -> None:
    python = install(wheel, tmp_path / "venv", "hiredis==3.5.0")
    calls = ["neighbours()", f"ours({redis_url!r})"]
    if first == "ours":
        calls.reverse()
    run(python, "-c", "\n".join([NEIGHBOURS, OURS, *calls]), cwd=tmp_path)


def test_nothing_of_ours_binds_outside(python: Path, tmp_path: Path, redis_url: str) -> None:
    """The dynamic linker's own record: our OpenSSL, hiredis, c-ares and abseil stay inside."""
    done = subprocess.run(
        [python, "-c", f"import ssl, hashlib\n{OURS}\nours({redis_url!r})"],
        cwd=tmp_path,
        env=clean_environment() | {"LD_DEBUG": "bindings"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    errors = [line for line in done.stderr.splitlines() if not re.match(r" +\d+:\t", line)]
    assert done.returncode == 0, errors
    ours = re.findall(r"binding file \S*_saqiya\S* \[0\] to \S+ \[0\]: .*`(\w+)'", done.stderr)
    assert len(ours) > 100
    prefixes = ("SSL_", "EVP_", "OPENSSL_", "CRYPTO_", "SHA", "redis", "sds", "ares_")
    assert [name for name in ours if name.startswith(prefixes) or "absl" in name] == []


def test_sdist_builds_a_wheel_elsewhere(python_dist: Path, tmp_path: Path) -> None:
    """In an isolated environment, as a user's pip would, against the system's libraries."""
    (sdist,) = python_dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"LICENSE", "README.md", "pyproject.toml", "capi/saqiya.symbols"} <= names
    assert [name for name in names if name.startswith((".", "node", "tests", "bindings"))] == []
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path, sdist, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    python = install(wheel, tmp_path / "venv")
    run(python, "-c", SMOKE, cwd=tmp_path)
    assert exported(native(tmp_path / "venv")) == ["PyInit__saqiya"]
