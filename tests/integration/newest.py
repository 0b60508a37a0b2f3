"""An environment of Python with the newest versions of the dependencies that setup.cfg admits.

The environment of the tests may have older ones, because packages of the tests restrict them. The dependencies are
installed once a week, in TOOLS_CACHE: `python -m tests.integration.newest` does it before the tests.
"""

from __future__ import annotations

import configparser
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.sources import ROOT

KEPT_SECONDS = 7 * 86_400
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "bcs-scheduler")


def requirements() -> list[str]:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    return settings["options"]["install_requires"].split()


def dependencies() -> Path:
    """The folder with the packages. Made if there is none, or if it is too old. Raises RuntimeError if pip fails."""
    cache = Path(os.environ.get("TOOLS_CACHE") or CACHE)
    cache.mkdir(parents=True, exist_ok=True)
    wanted = "\n".join([*requirements(), sys.version, sys.base_prefix])
    kept = cache / f"newest-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}"
    with (cache / "newest.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (kept.exists() and time.time() - kept.stat().st_mtime < KEPT_SECONDS):
            made = kept.with_suffix(".new")
            shutil.rmtree(made, ignore_errors=True)
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(made), *requirements()]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"the newest dependencies cannot be installed:\n{done.stdout}{done.stderr}")
            shutil.rmtree(kept, ignore_errors=True)
            made.rename(kept)
            os.utime(kept)
    return kept


def environment(folder: Path) -> None:
    """Makes an environment in this folder with these dependencies, and with the program as it is in the checkout."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "newest.pth").write_text(f"{ROOT}\n{dependencies()}\n")
    (installed,) = Path(sys.prefix).glob("lib/python*/site-packages/bcs_scheduler-*.dist-info")
    shutil.copytree(installed, packages / installed.name)
    for script in Path(sys.prefix, "bin").glob("bcs*"):
        _, _, body = script.read_text().partition("\n")
        made = folder / "bin" / script.name
        made.write_text(f"#!{folder}/bin/python\n{body}")
        made.chmod(0o755)


if __name__ == "__main__":
    dependencies()
