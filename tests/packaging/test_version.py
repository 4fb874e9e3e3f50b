"""There is one version: the header's."""

from __future__ import annotations

import json
import re

from artefacts import HEADER, ROOT


def test_header_string_agrees_with_its_numbers(version: str) -> None:
    assert f'#define SAQIYA_VERSION_STRING "{version}"' in HEADER.read_text()


def test_npm_package_has_the_header_s_version(version: str) -> None:
    assert json.loads((ROOT / "node/package.json").read_text())["version"] == version
    lock = json.loads((ROOT / "node/package-lock.json").read_text())
    assert lock["version"] == lock["packages"][""]["version"] == version


def test_lock_file_names_no_registry() -> None:
    assert not re.search(r'"resolved": "http', (ROOT / "node/package-lock.json").read_text())
