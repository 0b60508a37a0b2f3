"""Compiles the .proto files beside this module into ``*_pb2.py`` (``make proto``).

Needs grpcio-tools, which brings its own protoc; nothing else does. The digests of sources and results are written to
``generated.sha256``, so that a test can detect without a compiler that one was changed without the other.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
DIGESTS = HERE / "generated.sha256"


def digests() -> str:
    """One line per source and per generated module: SHA-256, two blanks, file name (as sha256sum writes it)."""
    files = sorted([*HERE.glob("*.proto"), *HERE.glob("*_pb2.py")])
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)


def generate() -> None:
    """Runs protoc from the root of the source tree, so that the modules import each other by their full names."""
    sources = [str(path.relative_to(ROOT)) for path in sorted(HERE.glob("*.proto"))]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--python_out=.", "--pyi_out=.", *sources]
    subprocess.run(command, cwd=ROOT, check=True)
    DIGESTS.write_text(digests(), encoding="ascii")


if __name__ == "__main__":
    generate()
