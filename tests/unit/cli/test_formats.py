"""Values of -o: their notation, expressions, templates."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.output.expressions import by_path, by_template, custom_columns
from bcs_scheduler.cli.output.formats import Form, chosen_form, form_of

WEB = {"Name": "web", "metadata": {"labels": {"app.kubernetes.io/name": "shop", "tier": "front"}}, "n": 3}
DATA = [WEB, {**WEB, "Name": "api", "metadata": {"labels": {}}}]


@pytest.mark.parametrize("name", ["table", "wide", "json", "yaml", "name"])
def test_plain_formats(name: str) -> None:
    assert form_of(name) == Form(name)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("xml", "not an output format"),
        ("json=1", "not an output format"),
        ("jsonpath", "needs a value"),
        ("go-template={{.x}}", "Jinja"),
    ],
)
def test_other_formats_are_refused(text: str, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        form_of(text)


def test_the_environment_chooses_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BCS_OUTPUT", raising=False)
    assert chosen_form(None) == Form("table")
    monkeypatch.setenv("BCS_OUTPUT", "json")
    assert chosen_form(None) == Form("json")
    assert chosen_form(Form("name")) == Form("name")


@pytest.mark.parametrize(
    ("expression", "data", "text"),
    [
        ("{.Name}", WEB, "web"),
        (".Name", WEB, "web"),
        ("$.Name", WEB, "web"),
        ("Name", WEB, "web"),
        ("{.items[*].Name}", DATA, "web api"),
        ("{[*].Name}", DATA, "web api"),
        ("{[0].n}", DATA, "3"),
        ("{.metadata.labels}", DATA[1], "{}"),
        ("{.metadata.labels.app\\.kubernetes\\.io/name}", WEB, "shop"),
        ('{[?(@.Name=="api")].n}', DATA, "3"),
        ('{range .items[*]}{.Name}{"\\t"}{.n}{"\\n"}{end}', DATA, "web\t3\napi\t3\n"),
        ("{range [*]}{range .metadata.labels.tier}<{@}>{end}{end}", DATA, "<front>"),
        ("name: {.Name}!", WEB, "name: web!"),
        ("{.missing}", WEB, ""),
    ],
)
def test_expressions(expression: str, data: Any, text: str) -> None:
    assert by_path(expression, data) == text


@pytest.mark.parametrize("expression", ["{.Name", "{range .x}{.y}", "{end}", "[*)", "{.a..}", "{'unclosed}"])
def test_wrong_expressions_are_refused(expression: str) -> None:
    with pytest.raises(UsageError):
        by_path(expression, WEB)


def test_columns_that_the_user_chooses() -> None:
    columns = custom_columns("NAME:.Name,TIER:.metadata.labels.tier")
    assert [column.title for column in columns] == ["NAME", "TIER"]
    assert [[column.cell(item) for column in columns] for item in DATA] == [["web", "front"], ["api", "<none>"]]
    for wrong in ("NAME", "NAME:", ":.x"):
        with pytest.raises(UsageError, match="TITLE:PATH"):
            custom_columns(wrong)


def test_templates() -> None:
    assert by_template("{% for item in items %}{{ item.Name }};{% endfor %}", DATA) == "web;api;"
    assert by_template("{{ item.Name }}\\n", WEB) == "web\n"
    for wrong in ("{{ item.nothing }}", "{{ item.", "{{ item.__class__.__mro__ }}"):
        with pytest.raises(UsageError, match="the template failed"):
            by_template(wrong, WEB)
