"""What the documents name exists: files, modules, classes and functions; the hops of the two journeys are counted."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()
ROOMS = ("store", "offers", "transactions", "bcs_scheduler", "tests")
WITHIN = (
    "",
    *(f"bcs_scheduler{room}" for room in ("", "/cli", "/core", "/executor", "/publishing")),
    *(f"offers/policy/{room}" for room in ("hierarchy", "applications")),
)
"""Folders to which the paths of a section may be relative."""
FILES = {path.name for room in ROOMS for path in (ROOT / room).rglob("*.py")}
PATH = re.compile(r"`((?:[\w-]+/)*[\w-]+\.py|(?:[\w-]+/)+[\w-]*|bcs_scheduler/[\w/.-]+)`")
HOP = re.compile(r"^ ?(\d+)  ([\w.]+):([\w.]+)", re.MULTILINE)
REFERENCE = re.compile(r"\b((?:[a-z_]+\.)+[a-z_]+):([A-Za-z_][\w.]*\w)")
CLASS = re.compile(r"`([A-Z][a-z]+[A-Z]\w+)(?:\.\w+)?(?:\([^`]*\))?`")
KNOWN = re.compile(r"\bclass (\w+)|\b(\w+) = |\"(\w+)\"")
"""A class, an alias of a type, or the name of an event or attribute."""
SOURCES = "\n".join(path.read_text() for room in ROOMS[:4] for path in sorted((ROOT / room).rglob("*.py")))


def exists(path: str) -> bool:
    return any((ROOT / folder / name).exists() for folder in WITHIN for name in (path, f"{path}.py"))


@pytest.mark.parametrize("document", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_file_that_is_named_exists(document: str) -> None:
    found = set(PATH.findall((ROOT / document).read_text()))
    assert len(found) > 10
    made = {"dist/"}
    assert [path for path in sorted(found - made) if not exists(path) and path not in FILES] == []


def test_every_function_of_a_journey_exists() -> None:
    found = REFERENCE.findall(ARCHITECTURE)
    assert len(found) > 40
    for module, names in found:
        known = module.partition(".")[0] in ROOMS
        place = importlib.import_module(module if known else f"bcs_scheduler.{module}")
        for name in names.split("."):
            place = getattr(place, name)


def test_the_hops_of_both_journeys_are_counted() -> None:
    journeys = re.findall(r"\*\*One [^*]*: (\d+) hops\.\*\*\n\n```text\n(.*?)```", ARCHITECTURE, re.DOTALL)
    assert len(journeys) == 2
    for count, text in journeys:
        assert [int(number) for number, _, _ in HOP.findall(text)] == list(range(1, int(count) + 1))


@pytest.mark.parametrize("document", ["docs/architecture.md", "docs/glossary.md"])
def test_every_class_that_is_named_exists(document: str) -> None:
    text = (ROOT / document).read_text()
    known = {name for names in KNOWN.findall(SOURCES) for name in names}
    assert len(known) > 1000
    assert sorted(set(CLASS.findall(text)) - known) == []
