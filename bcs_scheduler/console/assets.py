"""The files of the console, in memory: read once, compressed once, named by their contents.

All files lie under one path that has a digest of all of them, so modules import each other by plain relative names, and
browsers keep the files. Browsers ask for the page itself each time.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

PREFIX = "/console/assets/"
PLACE = "{assets}"
"""Stands for the path of the files in the page."""
PRELOADS = "{preloads}"
"""Stands for links to all modules, so that browsers load them at once and not import by import."""
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent. `packed`: the same, compressed with gzip."""

    content: bytes
    packed: bytes
    media_type: str
    etag: str


@dataclass(frozen=True, slots=True)
class Assets:
    """`files` by path below `PREFIX`, which begins with the digest of all files."""

    page: Asset
    files: dict[str, Asset]


@cache
def assets() -> Assets:
    """The files of the package."""
    found = dict(_files(resources.files(__package__) / "page", ""))
    version = hashlib.sha256(b"".join(name.encode() + found[name] for name in sorted(found))).hexdigest()[:16]
    modules = sorted(name for name in found if name.endswith(".js"))
    preloads = "\n".join(f'<link rel="modulepreload" href="{PLACE}/{name}">' for name in modules)
    page = found.pop("index.html").replace(PRELOADS.encode(), preloads.encode())
    page = page.replace(PLACE.encode(), f"{PREFIX}{version}".encode())
    return Assets(
        _asset(page, ".html"), {f"{version}/{name}": _asset(content, name) for name, content in found.items()}
    )


def _files(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _files(entry, f"{prefix}{entry.name}/")
        elif any(entry.name.endswith(ending) for ending in TYPES):
            found.append((f"{prefix}{entry.name}", entry.read_bytes()))
    return found


def _asset(content: bytes, name: str) -> Asset:
    media_type = next(kind for ending, kind in TYPES.items() if name.endswith(ending))
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Asset(content, gzip.compress(content, 9, mtime=0), media_type, etag)
