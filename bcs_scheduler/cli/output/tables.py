"""Tables and lists of fields. A row is never broken over lines: on a terminal long cells are cut with an ellipsis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.output.terminal import Line, Styled, printable, rich_text, style_of
from bcs_scheduler.cli.output.text import age, local_time, moment

if TYPE_CHECKING:
    from rich.table import Table

GAP = 2
"""Blanks between two columns."""
NARROW, NARROWEST = 12, 4
"""Cells to which columns are cut before others are cut, first and last."""


class Column(NamedTuple):
    """`cell` returns the text of an item. `wide`: shown with -o wide only. `right`: aligned right. `long`: cut first
    if the terminal is too narrow. `optional`: left out of a table in which all cells are empty. `order`: the value for
    --sort-by; None = the text."""

    title: str
    cell: Callable[[Json], Any]
    wide: bool = False
    right: bool = False
    long: bool = False
    optional: bool = False
    order: Callable[[Json], Any] | None = None


def age_column(title: str, since: Callable[[Json], Any], *, wide: bool = False) -> Column:
    """Time that has passed since a moment. Sorted from new to old."""
    return Column(title, lambda item: age(since(item)), wide=wide, right=True, order=lambda item: -moment(since(item)))


def time_column(title: str, at: Callable[[Json], Any]) -> Column:
    """A moment in local time, shown with -o wide only."""
    return Column(title, lambda item: local_time(at(item)), wide=True, order=lambda item: moment(at(item)))


def reason_column(reason: Callable[[Json], Any]) -> Column:
    """The column REASON: why a row is not in order. The column is left out if all rows are in order."""
    return Column("REASON", reason, long=True, optional=True)


class Grid:
    """Aligned rows of text."""

    def __init__(self, columns: Sequence[Column], rows: Sequence[Sequence[Styled]], *, headers: bool, whole: bool):
        """`whole`: cells are never cut."""
        self._columns, self._whole = columns, whole
        head = [[Styled(column.title, "bold") for column in columns]] if headers else []
        self._rows = [*head, *rows]

    def lines(self, width: int | None) -> Iterator[Line]:
        """One line per row, of at most `width` places; None = no limit."""
        sizes = [[_places(cell) for cell in row] for row in self._rows]
        widths = [max((row[i] for row in sizes), default=0) for i in range(len(self._columns))]
        if width is not None and not self._whole:
            widths = fitted(widths, [column.long for column in self._columns], width)
        last = len(self._columns) - 1
        for row in self._rows:
            line = Line()
            for number, (cell, size, column) in enumerate(zip(row, widths, self._columns, strict=True)):
                cut = Styled(_cut(cell, size), cell.style)
                blanks = Styled(" " * (size - _places(cut)))
                line += [blanks, cut] if column.right else [cut] if number == last else [cut, blanks]
                if number < last:
                    line.append(Styled(" " * GAP))
            yield line


def _places(text: str) -> int:
    """Places of a terminal that a text takes: wide letters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _cut(text: str, size: int) -> str:
    if _places(text) <= size:
        return text
    if text.isascii():
        return text[: size - 1] + "…"
    from rich.cells import set_cell_size

    return set_cell_size(text, size - 1) + "…"


def joined(cells: Iterable[Any]) -> Line:
    """Cells as one line that is not aligned with others."""
    line = Line()
    for cell in cells:
        line += [Styled(" " * GAP), _cell(cell)] if line else [_cell(cell)]
    return line


def fitted(widths: Sequence[int], long: Sequence[bool], limit: int) -> list[int]:
    """Widths of columns that fit into `limit` cells. Of the columns that may be cut the widest is cut first; long
    columns are cut before the others, and the first column last."""
    found = list(widths)
    places = range(len(found))
    longs, others = [i for i in places if i and long[i]], [i for i in places if i and not long[i]]
    steps = ((longs, NARROW), (others, NARROW), (longs, NARROWEST), (others, NARROWEST), ([0], NARROW), (places, 1))
    excess = sum(found) + GAP * (len(found) - 1) - limit
    for able, least in steps:
        while excess > 0 and (wider := [i for i in able if found[i] > least]):
            found[max(wider, key=lambda i: (found[i], i))] -= 1
            excess -= 1
    return found


def table(
    columns: Sequence[Column], items: Iterable[Json], *, wide: bool = False, headers: bool = True, prefix: str = ""
) -> Grid:
    """`wide`: all columns, with whole cells. `prefix`: put before each cell of the first column."""
    given = list(items)
    shown = [
        column
        for column in columns
        if (wide or not column.wide)
        and not (column.optional and all(column.cell(item) in (None, "") for item in given))
    ]
    rows = [[_cell(column.cell(item)) for column in shown] for item in given]
    if prefix:
        rows = [[Styled(prefix + row[0], row[0].style), *row[1:]] for row in rows]
    return Grid(shown, rows, headers=headers, whole=wide)


def _cell(value: Any) -> Styled:
    cell = "-" if value in (None, "") else str(value)
    return Styled(cell if cell.isprintable() else printable(" ".join(cell.split())), style_of(value))


def order_of(column: Column) -> Callable[[Json], Any]:
    """The function that --sort-by uses for a column."""
    if column.order is not None:
        return column.order
    return lambda item: str(column.cell(item) or "")


def field_list(fields: Iterable[tuple[str, Any]]) -> Table:
    """Lines ``Name:   value``. Empty values are left out."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for name, value in fields:
        if value not in (None, "", [], {}):
            grid.add_row(*(rich_text(Line([each])) for each in (Styled(f"{name}:", "bold"), _field(value))))
    return grid


def _field(value: Any) -> Styled:
    return Styled(printable(str(value)), style_of(value))


class Stack:
    """Several tables, with an empty line between two."""

    def __init__(self, grids: Sequence[Grid]) -> None:
        self._grids = grids

    def lines(self, width: int | None) -> Iterator[Line]:
        """As those of a grid."""
        for number, grid in enumerate(self._grids):
            if number:
                yield Line()
            yield from grid.lines(width)
