"""The npm tarballs: contents, symbols, and use in an empty folder elsewhere."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest
from artefacts import C_LIBRARY, exported, imported, needed, run

SMOKE = """
const limiter = new Limiter('1/h burst 3');
const decisions = [1, 2, 3, 4].map(() => limiter.checkSync('user:42'));
const allowed = decisions.map((d) => d.allowed).join();
if (allowed !== 'true,true,true,false') throw new Error(allowed);
if (decisions[0].remaining !== 2) throw new Error(`remaining ${decisions[0].remaining}`);
const wait = decisions[3].retryAfter;
if (!(wait > 3590000 && wait <= 3600000)) throw new Error(`wait ${wait}`);
"""

COMMON = ("package.json", "LICENSE", "THIRD-PARTY.txt")


def tarball(folder: Path, *, native: bool) -> Path:
    (path,) = (path for path in folder.glob("*.tgz") if ("linux" in path.name) == native)
    return path


def manifest(path: Path) -> dict[str, object]:
    with tarfile.open(path) as archive:
        file = archive.extractfile("package/package.json")
        assert file
        return json.load(file)


@pytest.fixture(scope="module")
def app(npm_dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder into which the two tarballs were installed, without a network."""
    folder = tmp_path_factory.mktemp("empty")
    (folder / "package.json").write_text("{}")
    run("npm", "install", "--offline", *sorted(npm_dist.glob("*.tgz")), cwd=folder)
    return folder


def test_manifests(npm_dist: Path, version: str) -> None:
    main, native = (manifest(tarball(npm_dist, native=native)) for native in (False, True))
    assert main["name"] == "saqiya"
    assert main["version"] == native["version"] == version
    assert main["optionalDependencies"] == {native["name"]: version}
    assert "dependencies" not in main
    for package in (main, native):
        # npm 12 and pnpm run no install scripts; binding.gyp would make npm want node-gyp.
        assert not {"preinstall", "install", "postinstall"} & set(package.get("scripts", {}))  # type: ignore[call-overload]


def test_contents(npm_dist: Path) -> None:
    with tarfile.open(tarball(npm_dist, native=True)) as archive:
        assert set(archive.getnames()) == {
            f"package/{name}"
            for name in ("package.json", "saqiya.node", "LICENSE", "THIRD-PARTY.txt")
        }
    with tarfile.open(tarball(npm_dist, native=False)) as archive:
        others = {name for name in archive.getnames() if not name.startswith("package/lib/")}
    assert others == {f"package/{name}" for name in (*COMMON, "README.md")}


def test_every_export_is_in_the_tarball(app: Path) -> None:
    def targets(value: object) -> list[str]:
        if isinstance(value, dict):
            return [target for inner in value.values() for target in targets(inner)]
        return [str(value)]

    package = app / "node_modules/saqiya"
    exports = json.loads((package / "package.json").read_text())["exports"]
    assert [target for target in targets(exports) if not (package / target).is_file()] == []


def test_addon_exports_one_name_and_needs_the_c_library_only(app: Path) -> None:
    (addon,) = app.rglob("saqiya.node")
    assert exported(addon) == ["napi_register_module_v1"]
    assert {name for name in imported(addon) if not re.match(r"(napi|node_api|uv)_", name)} == set()
    assert needed(addon) <= C_LIBRARY


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("smoke.mjs", "import { Limiter } from 'saqiya';"),
        ("smoke.cjs", "const { Limiter } = require('saqiya');"),
    ],
)
def test_works_in_an_empty_folder(app: Path, name: str, load: str) -> None:
    (app / name).write_text(load + SMOKE)
    run("node", name, cwd=app)


def test_says_what_is_missing_without_the_platform_package(npm_dist: Path, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text("{}")
    main = tarball(npm_dist, native=False)
    run("npm", "install", "--offline", "--omit=optional", main, cwd=tmp_path)
    code = "try { require('saqiya'); } catch (error) { console.log(error.message); }"
    message = run("node", "-e", code, cwd=tmp_path)
    assert re.search(r"@saqiya/linux-\w+-(gnu|musl)", message), message
