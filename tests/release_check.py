"""Checks that a commit can be released: its version, changelog and golden records, and the packages that are built from
it, which are installed into an environment of their own. Writes the files of the release to dist/.

    python -m tests.release_check            a release: the changelog has its date, nothing is uncommitted
    python -m tests.release_check --draft    any commit on the way to the release
"""

from __future__ import annotations

import argparse
import configparser
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
EXAMPLES = ROOT / "conf" / "examples"
VERSION = re.compile(r"\d+\.\d+\.\d+")
HEADING = re.compile(r"## (\S+)(?: - (\d{4}-\d\d-\d\d)| \((not released yet)\))$")
PROGRAMS = ("bcs", "bcs-scheduler")
PACKAGES = ("bcs_scheduler", "offers", "store", "transactions")
"""What a wheel holds, besides the folder with its metadata."""


class NotReady(Exception):
    """The commit cannot be released; the text says why."""


def declared_version(setup: str) -> str:
    """The version in `setup.cfg`."""
    parser = configparser.ConfigParser()
    parser.read_string(setup)
    version = parser["metadata"]["version"]
    if VERSION.fullmatch(version) is None:
        raise NotReady(f"setup.cfg: version {version} is not of the form X.Y.Z")
    return version


def check_changelog(text: str, version: str, draft: bool) -> None:
    """The first heading belongs to the version, and has a date unless this is a draft."""
    first = next((line for line in text.splitlines() if line.startswith("## ")), "")
    found = HEADING.match(first)
    if found is None or found[1] != version:
        raise NotReady(f"CHANGELOG.md: the first heading is {first!r}, not of version {version}")
    if found[3] and not draft:
        raise NotReady(f"CHANGELOG.md: version {version} has no date yet")


def check_repository(version: str) -> None:
    """Everything is committed, and a tag of this version, if there is one, is on this commit."""
    if changes := output("git", "status", "--porcelain"):
        raise NotReady(f"not committed:\n{changes}")
    tagged = output("git", "rev-parse", "--verify", "--quiet", f"v{version}^{{commit}}", check=False)
    if tagged and tagged != output("git", "rev-parse", "HEAD"):
        raise NotReady(f"the tag v{version} is on another commit: {tagged}")


def check_records(version: str, draft: bool) -> None:
    if not draft and not (ROOT / "tests/golden/records" / version).is_dir():
        raise NotReady(f"no records of this version: python -m tests.golden.write {version}")


def build(version: str) -> tuple[Path, Path]:
    """The source archive, and the wheel that is built from it: so the archive is complete."""
    for old in DIST.glob("bcs_scheduler-*"):
        old.unlink()
    output(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    source = DIST / f"bcs_scheduler-{version}.tar.gz"
    wheel = DIST / f"bcs_scheduler-{version}-py3-none-any.whl"
    for path in (source, wheel):
        if not path.exists():
            raise NotReady(f"{path.name} was not built, but {[found.name for found in DIST.iterdir()]}")
    return source, wheel


def check_contents(source: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    if tops != set(PACKAGES):
        raise NotReady(f"the wheel holds {sorted(tops)}")
    wanted = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".proto") or path.name == "py.typed"
    }
    conf = {str(path.relative_to(ROOT)) for path in (ROOT / "conf").rglob("*") if path.is_file()}
    if missing := {*wanted, *(f"bcs_scheduler/{name}" for name in conf)} - names:
        raise NotReady(f"the wheel lacks {sorted(missing)[:5]}")
    with tarfile.open(source) as packed:
        members = {name.partition("/")[2] for name in packed.getnames()}
    if missing := (wanted | conf) - members:
        raise NotReady(f"the source archive lacks {sorted(missing)[:5]}")


def check_installed(wheel: Path, version: str) -> None:
    """The wheel with its dependencies, in an environment without this folder."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "venv", with_pip=True)
        programs = place / "venv" / "bin"
        output(str(programs / "python"), "-m", "pip", "install", "--quiet", str(wheel), cwd=place)
        for program in PROGRAMS:
            told = output(str(programs / program), "--version", cwd=place)
            if told not in (f"{program} {version}", f"{program}, version {version}"):
                raise NotReady(f"{program} --version says {told!r}")
        if (
            output(str(programs / "bcs"), "examples", "web.json", cwd=place)
            != (EXAMPLES / "web.json").read_text().strip()
        ):
            raise NotReady("bcs examples web.json does not print the document")
        executor = DIST / "bcs-executor.pyz"
        output(str(programs / "python"), "-m", "bcs_scheduler.executor_file", str(executor), cwd=place)
        # Without the variables of an agent, the executor names the first one that it lacks.
        started = subprocess.run([programs / "python", executor], cwd=place, env={}, capture_output=True, text=True)
        if started.returncode != 2 or "MESOS_" not in started.stderr:
            raise NotReady(f"{executor.name} does not start: exit code {started.returncode}\n{started.stderr}")


def output(*command: str, cwd: Path = ROOT, check: bool = True) -> str:
    """What the command prints. Raises NotReady with all that it has printed if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise NotReady(f"{' '.join(command)} has failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draft", action="store_true", help="do not ask for date, records and a clean work tree")
    draft = parser.parse_args().draft
    try:
        version = declared_version((ROOT / "setup.cfg").read_text())
        check_changelog((ROOT / "CHANGELOG.md").read_text(), version, draft)
        check_records(version, draft)
        if not draft:
            check_repository(version)
        source, wheel = build(version)
        check_contents(source, wheel)
        check_installed(wheel, version)
    except NotReady as reason:
        print(f"not ready: {reason}", file=sys.stderr)
        return 1
    print(f"{source.name}, {wheel.name} and bcs-executor.pyz are in dist/; next: git tag -a v{version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
