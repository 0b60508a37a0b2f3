"""Lists in the format that the user has chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.output.data import print_form
from bcs_scheduler.cli.output.formats import WITH_ARGUMENT, Form, chosen_form
from bcs_scheduler.cli.output.sorting import in_order
from bcs_scheduler.cli.output.tables import Column, Grid, order_of, table
from bcs_scheduler.cli.session import Session


class Shape(NamedTuple):
    """The form of a list. `sort_by`: title of a column, or a JSONPath expression; empty = the order of the server.
    `labels`: tables have a column of labels."""

    form: Form
    sort_by: str = ""
    headers: bool = True
    labels: bool = False

    @property
    def has_expressions(self) -> bool:
        """The user names fields of the objects."""
        return self.form.name in WITH_ARGUMENT


def chosen_shape(*, output: Form | None, sort_by: str, no_headers: bool) -> Shape:
    """The values of options.list_options."""
    return Shape(chosen_form(output), sort_by, not no_headers)


def sorted_by(
    shape: Shape, found: list[Json], columns: Sequence[Column], seen: Callable[[Json], Any] = lambda item: item
) -> list[Json]:
    """The items in the order that the user asked for. `seen`: the form of an item that expressions read. Raises
    UsageError for an expression that is none, and for a field that no item has."""
    if not shape.sort_by:
        return found
    column = next((column for column in columns if column.title.lower() == shape.sort_by.lower()), None)
    if column is not None:
        return in_order(found, order_of(column))
    from bcs_scheduler.cli.output.expressions import compiled

    find = compiled(shape.sort_by)
    values = [find(seen(item)) for item in found]
    if found and not any(values):
        known = ", ".join(column.title.lower() for column in columns)
        raise UsageError(f"--sort-by: there is no column or field {shape.sort_by!r}; columns: {known}")
    return [item for item, _ in in_order(list(zip(found, values, strict=True)), lambda pair: next(iter(pair[1]), None))]


def grid_of(shape: Shape, found: Sequence[Json], columns: Sequence[Column], prefix: str = "") -> Grid:
    """`prefix`: put before the names of the first column."""
    if shape.form.name == "custom-columns":
        from bcs_scheduler.cli.output.expressions import custom_columns

        return table(custom_columns(shape.form.argument), found, wide=True, headers=shape.headers)
    return table(columns, found, wide=shape.form.name == "wide", headers=shape.headers, prefix=prefix)


def print_list(
    session: Session, shape: Shape, found: list[Json], columns: Sequence[Column], named: Callable[[Json], Any]
) -> None:
    """`named`: the text that -o name prints for an item. Raises UsageError."""
    found = sorted_by(shape, found, columns)
    if shape.form.name == "name":
        for item in found:
            session.say(str(named(item)))
    elif not print_form(session.out, found, shape.form):
        session.show(grid_of(shape, found, columns))
