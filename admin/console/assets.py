"""Style sheet, scripts and icon: served by an address with the hash of their content, which browsers keep for ever."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from flask import Response

from admin.console.pages import PREFIX, Pages
from admin.console.responses import takes_gzip
from admin.core.permissions import OPEN
from admin.errors import PathNotFound

pages = Pages("static")

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"


class Asset(NamedTuple):
    """A static file."""

    content: bytes
    compressed: bytes
    type: str


@cache
def _assets() -> dict[str, Asset]:
    """Every static file by its name; modules of scripts import each other by names beside their own."""
    folder = Path(__file__).parent / "static"
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in _TYPES}
    return {
        name: Asset(content, gzip.compress(content, mtime=0), _TYPES[Path(name).suffix])
        for name, content in files.items()
    }


@cache
def _version() -> str:
    """The hash of all files, which stands in their addresses."""
    digest = hashlib.sha256()
    for name, asset in _assets().items():
        digest.update(name.encode() + asset.content)
    return digest.hexdigest()[:16]


def asset(name: str) -> str:
    """The address of a static file; KeyError for one that there is not."""
    _assets()[name]
    return f"{PREFIX}/static/{_version()}/{name}"


@pages.add("GET", "/static/<version>/<name>", permission=OPEN)
def get_asset(version: str, name: str) -> Response:
    """A static file."""
    file = _assets().get(name)
    if file is None or version != _version():
        raise PathNotFound("No such file. Load the page again: the admin may have been upgraded.")
    is_compressed = takes_gzip()
    response = Response(file.compressed if is_compressed else file.content, mimetype=file.type)
    if is_compressed:
        response.headers["Content-Encoding"] = "gzip"
    response.headers["Cache-Control"] = _FOREVER
    return response
