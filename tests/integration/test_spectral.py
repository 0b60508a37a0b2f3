"""Spectral, as its makers publish it, finds nothing in the OpenAPI document, and agrees with our form of its rules
(tests/unit/test_openapi_spectral.py). `make spectral` installs it into build/."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_openapi import api
from tests.unit.test_openapi_spectral import BROKEN, RECOMMENDED, small

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

ROOT = Path(__file__).resolve().parents[2]
NEEDED = "Spectral is missing: make spectral"
TIMEOUT = 300.0
FAULTS_FOUND = 1
"""Exit code of a run that has findings."""
ENABLED = """
const { oas } = require("@stoplight/spectral-rulesets");
const api = { openapi: "3.1.0" };
const applies = (rule) => rule.formats === undefined || [...rule.formats].some((format) => format(api, null));
const rules = Object.entries(oas.rules).filter(([, rule]) => rule.recommended !== false && applies(rule));
console.log(JSON.stringify(rules.map(([name]) => name)));
"""
"""Prints the names of the rules that are on by default and apply to OpenAPI 3.1."""


@pytest.fixture(scope="module")
def installed() -> Path:
    """The folder of its packages."""
    folders = sorted((ROOT / "build").glob("spectral-*/node_modules"))
    assert folders, NEEDED
    return folders[-1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".spectral.yaml").write_text('extends: ["spectral:oas"]\n')
    return tmp_path


def run(installed: Path, folder: Path, *names: str) -> tuple[int, list[Any]]:
    """Exit code and findings for the documents of the folder, hints included."""
    command = [str(installed / ".bin" / "spectral"), "lint", *names, "--format", "json", "--output", "found.json"]
    ended = subprocess.run(
        [*command, "--fail-severity", "hint", "--ruleset", ".spectral.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert ended.returncode in (0, FAULTS_FOUND), ended.stdout + ended.stderr
    return ended.returncode, json.loads((folder / "found.json").read_text())


def test_the_document_has_no_finding(installed: Path, folder: Path) -> None:
    (folder / "openapi.json").write_text(json.dumps(api()))
    assert run(installed, folder, "openapi.json") == (0, [])


def test_our_rules_are_its_rules(installed: Path) -> None:
    command = ["node", "-e", ENABLED]
    ended = subprocess.run(command, cwd=installed, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert sorted(json.loads(ended.stdout)) == sorted(RECOMMENDED)


def test_it_finds_the_documents_that_our_rules_find(installed: Path, folder: Path) -> None:
    for name in RECOMMENDED:
        broken = copy.deepcopy(small())
        (*way, last), value = BROKEN[name]
        place: Any = broken
        for step in way:
            place = place[step]
        place[last] = value
        (folder / f"{name}.json").write_text(json.dumps(broken))
    (folder / "small.json").write_text(json.dumps(small()))
    code, findings = run(installed, folder, "*.json")
    by_document: dict[str, set[str]] = {}
    for finding in findings:
        by_document.setdefault(Path(finding["source"]).stem, set()).add(finding["code"])
    assert code == FAULTS_FOUND and by_document.keys() == set(RECOMMENDED)
    assert [name for name, rules in by_document.items() if name not in rules] == []
