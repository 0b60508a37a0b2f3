"""Values of -o: tables, data, names, columns and fields that the user chooses, and templates. Expressions are evaluated
in bcs_scheduler.cli.output.expressions."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import click

from bcs_scheduler.cli.errors import UsageError

PLAIN = ("table", "wide", "json", "yaml", "name")
WITH_ARGUMENT = ("custom-columns", "jsonpath", "template")
NOTATION = "table|wide|json|yaml|name|custom-columns=TITLE:PATH,…|jsonpath=EXPRESSION|template=JINJA"
OTHER_NAMES = {"text": "table", "jsonpath-as-json": "jsonpath", "jinja": "template"}


class Form(NamedTuple):
    """A format: its name, and the argument of custom-columns, jsonpath or template."""

    name: str
    argument: str = ""

    @property
    def is_data(self) -> bool:
        """JSON or YAML."""
        return self.name in ("json", "yaml")

    @property
    def is_table(self) -> bool:
        return self.name in ("table", "wide")


class FormType(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.3
    """A value of -o."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Form:
        if isinstance(value, Form):
            return value
        try:
            return form_of(value)
        except UsageError as error:
            self.fail(error.message, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        known = (*PLAIN, *(f"{name}=" for name in WITH_ARGUMENT))
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]


def form_of(given: str) -> Form:
    """Raises UsageError for an unknown format."""
    name, equals, argument = given.partition("=")
    name = OTHER_NAMES.get(name, name)
    if name in PLAIN and not equals:
        return Form(name)
    if name in WITH_ARGUMENT and argument:
        return Form(name, argument)
    if name in WITH_ARGUMENT:
        raise UsageError(f"-o {name} needs a value: {name}=…")
    if name.startswith("go-template"):
        raise UsageError("templates use Jinja: -o template='{{ item.Name }}' instead of go-template")
    raise UsageError(f"{given!r} is not an output format; known: {NOTATION}")


def chosen_form(given: Form | None) -> Form:
    """The format of a command that shows objects. Raises UsageError for an unknown one in the environment."""
    return given or form_of(os.environ.get("BCS_OUTPUT") or "table")
