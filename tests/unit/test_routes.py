"""Every route of the original has its counterpart, and the table that says so is true."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache

import click
import pytest

from bcs_scheduler.api.http.openapi import document
from bcs_scheduler.api.http.operation import BASE
from bcs_scheduler.api.routes import operations
from bcs_scheduler.cli.client.kinds import ALIASES, KINDS
from bcs_scheduler.cli.main import bcs
from tests import routetable

MAPPED = routetable.read()
COUNTS = {
    "Scheduler, applications and processes": 6,
    "Scheduler, taskgroups, messages, versions, images": 9,
    "Scheduler, definitions and commands": 8,
    "Scheduler, configmaps, secrets, services": 9,
    "Scheduler, deployments": 8,
    "Scheduler, daemonsets and transactions": 4,
    "Scheduler, cluster, agents, health": 13,
    "Scheduler, custom resources and admission webhooks": 12,
    "Driver, applications and processes": 14,
    "Driver, deployments and daemonsets": 9,
    "Driver, taskgroups, messages, versions, commands": 20,
    "Driver, configuration, cluster, agents": 31,
    "Driver, passed on to other services": 11,
}
"""Routes of the original by chapter of its description."""
OUTSIDE = {"GET /healthz", "GET /readyz", "GET /version", "GET /metrics", "GET /openapi.json"}
"""Ours outside the base path, told in words."""


@cache
def described() -> frozenset[str]:
    """Routes of the OpenAPI document, without the base path."""
    paths = json.loads(document(operations(), "0"))["paths"]
    return frozenset(
        f"{method.upper()} {path.removeprefix(BASE)}"
        for path, item in paths.items()
        for method in item
        if method in ("get", "post", "put", "delete", "patch")
    )


def test_every_route_of_the_original_is_listed_once() -> None:
    assert Counter(row.section for row in MAPPED) == COUNTS
    for side in ("Scheduler", "Driver"):
        shapes = [re.sub(r"{[^}]*}", "{}", row.original) for row in MAPPED if row.section.startswith(side)]
        assert len(shapes) == len(set(shapes))


@pytest.mark.slow
def test_every_counterpart_exists() -> None:
    missing = [row.ours for row in MAPPED if row.ours and row.ours not in described()]
    assert not missing


def test_what_has_no_counterpart_says_why() -> None:
    without = {row.section for row in MAPPED if not row.ours}
    assert without == {"Driver, passed on to other services"}


def test_every_route_of_ours_is_told() -> None:
    """In the page before the tables, or in them. Paths of the page are short, so the last word of a route counts."""
    page = (routetable.DOCS / "api.md").read_text().partition(routetable.BEGIN)[0]
    others = described() - {row.ours for row in MAPPED} - OUTSIDE
    last = {route: [word for word in route.split("/") if word[0] != "{"][-1] for route in others}
    assert len(others) > 80
    assert sorted(route for route, word in last.items() if not re.search(rf"[/`]{re.escape(word)}\b", page)) == []


@pytest.mark.parametrize("command", sorted({row.command for row in MAPPED} - {""}))
def test_every_command_exists(command: str) -> None:
    words = [word for word in command.split() if not word.startswith("-")]
    found: click.Command | None = bcs
    while words and isinstance(found, click.Group):
        found = found.commands.get(words.pop(0))
        assert found is not None, command
    for word in words:
        assert word in KINDS or word in ALIASES or word == "command", f"{command}: {word} is no kind"


def test_the_page_shows_the_table() -> None:
    assert routetable.shown() == routetable.render(), "run python -m tests.routetable"


def test_every_route_that_scales_updates_or_rolls_back_an_application_takes_on_conflict() -> None:
    wanted = re.compile(r"/namespaces/\{ns\}/(applications|processes)(/\{name\})?(/rollback|/scale/\{instances\})?$")
    found = {
        o.path: {param.name for param in o.query} for o in operations() if o.method == "PUT" and wanted.search(o.path)
    }
    assert len(found) >= 8
    assert [path for path, names in found.items() if "onConflict" not in names] == []
