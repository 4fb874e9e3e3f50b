"""The example app for test_servers.py, with a deadline that a busy machine keeps."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from flask import Flask

from saqiya import Store

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import flask_app


def create_app() -> Flask:
    url = os.environ.get("REDIS_URL")
    return flask_app.create_app(Store(url, deadline=10) if url else None)
