"""The executor as one file: a zip archive that Python runs (https://docs.python.org/3/library/zipapp.html).

`python -m bcs_scheduler.executor_file FILE` writes it (`make executor`). Schedulers build it when they start and serve
it themselves, so that nothing has to be installed on the agents. Beside every module lies its byte code for the Python
that built the file: an agent with the same Python need not compile, any other passes it over. The start of a scheduler
needs the name only, so the file is built when it is fetched first.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import struct
import sys
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

PACKAGE = Path(__file__).with_name("executor")
FOLDER = "bcs_executor"
"""Name of the package inside the file."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip archive can name: the same files shall make the same bytes."""
MARSHAL_VERSION = 2
"""The newest without references between objects, whose numbering is not the same each time."""
UNCHECKED = 0b01
"""Flag of byte code that is taken without a look at its source (PEP 552)."""

MAIN = f"""\
import sys

from {FOLDER}.main import main

sys.exit(main())
"""


@dataclass(frozen=True)
class ExecutorFile:
    """The file that is built of these sources. Any thread may use it."""

    sources: Mapping[str, bytes]
    """By name inside the file."""

    @cached_property
    def name(self) -> str:
        """Changes with the content, so that copies may be cached without an expiry."""
        told = hashlib.sha256(f"{sys.version}\n{zlib.ZLIB_RUNTIME_VERSION}\n".encode())
        for name, source in self.sources.items():
            told.update(f"{name} {len(source)}\n".encode() + source)
        return f"bcs-executor-{told.hexdigest()[:12]}.pyz"

    @cached_property
    def content(self) -> bytes:
        """The bytes of the file. Raises SyntaxError if a source cannot be compiled."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, source in self.sources.items():
                _add(archive, name, source)
                _add(archive, f"{name}c", _byte_code(name, source))
        return buffer.getvalue()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content, hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


@cache
def executor_file() -> ExecutorFile:
    """The one of this installation."""
    return build(PACKAGE)


def build(package: Path) -> ExecutorFile:
    """The file of the modules of a package. Raises OSError if they cannot be read."""
    sources = {"__main__.py": MAIN.encode()}
    for path in package.rglob("*.py"):
        sources[f"{FOLDER}/{path.relative_to(package).as_posix()}"] = path.read_bytes()
    return ExecutorFile(dict(sorted(sources.items())))


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content, zipfile.ZIP_DEFLATED)


def _byte_code(name: str, source: bytes) -> bytes:
    """A .pyc file: magic number, flags, hash of the source, code (PEP 552)."""
    code = compile(source, name, "exec", dont_inherit=True)
    head = importlib.util.MAGIC_NUMBER + struct.pack("<I", UNCHECKED) + importlib.util.source_hash(source)
    return head + marshal.dumps(code, MARSHAL_VERSION)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m bcs_scheduler.executor_file FILE", file=sys.stderr)
        return 2
    target, built = Path(arguments[0]), executor_file()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(built.content)
    print(f"{target}: {len(built.content)} bytes, SHA-256 {built.digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
