"""Tables and lists of fields.

On a terminal, a table fits the width: texts are cut with an ellipsis, long ones first. Numbers are never cut: if the
columns do not fit, further columns follow below in a block of their own, which repeats the names of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.output.terminal import Line, Styled, printable, rich_text, style_of
from bcs_scheduler.cli.output.text import age, local_time, moment

if TYPE_CHECKING:
    from rich.table import Table

GAP = 2
"""Blanks between two columns."""
NAME, TEXT, LONG, NARROWEST = 32, 12, 8, 4
"""Places that remain of cut names, of other texts, and of long texts. NARROWEST: if there is no room for that."""
_NUMBER = re.compile(r"\d[\d.:]*$")


class Column(NamedTuple):
    """`cell` returns the text of an item. `wide`: shown with -o wide only. `right`: a number, aligned right, never cut.
    `whole`: never cut either. `long`: cut first if the terminal is too narrow. `key`: names the row, as the first
    column does. `optional`: left out of a table in which all cells are empty. `order`: the value for --sort-by; None =
    the text."""

    title: str
    cell: Callable[[Json], Any]
    wide: bool = False
    right: bool = False
    whole: bool = False
    key: bool = False
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
        """One line per row, and per block if the columns do not fit into `width` places; None = no limit."""
        sizes = [[_places(cell) for cell in row] for row in self._rows]
        columns = [
            Size(max((row[i] for row in sizes), default=0), column, i == 0) for i, column in enumerate(self._columns)
        ]
        limit = None if self._whole else width
        for number, block in enumerate(blocks(columns, limit)):
            if number:
                yield Line()
            widths = fitted([columns[i] for i in block], limit)
            for row in self._rows:
                yield self._line([row[i] for i in block], widths, [self._columns[i].right for i in block])

    def _line(self, row: Sequence[Styled], widths: Sequence[int], right: Sequence[bool]) -> Line:
        line, last = Line(), len(row) - 1
        for number, (cell, size, is_right) in enumerate(zip(row, widths, right, strict=True)):
            cut = Styled(_cut(cell, size), cell.style)
            blanks = Styled(" " * (size - _places(cut)))
            line += [blanks, cut] if is_right else [cut] if number == last else [cut, blanks]
            if number < last:
                line.append(Styled(" " * GAP))
        return line


class Size:
    """The places that a column needs, and the least that it may get."""

    def __init__(self, needed: int, column: Column, first: bool) -> None:
        self.needed = needed
        self.is_key = first or column.key
        self.is_long = column.long and not self.is_key
        self.may_be_cut = not (column.right or column.whole)
        kept = NAME if self.is_key else LONG if self.is_long else TEXT
        self.least = min(needed, kept) if self.may_be_cut else needed


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
        kept = text[: size - 1]
    else:
        from rich.cells import set_cell_size

        kept = set_cell_size(text, size - 1)
    if text[len(kept)].isdecimal():  # a part of a number would be another number
        kept = _NUMBER.sub("", kept)
    return kept + "…"


def joined(cells: Iterable[Any]) -> Line:
    """Cells as one line that is not aligned with others."""
    line = Line()
    for cell in cells:
        line += [Styled(" " * GAP), _cell(cell)] if line else [_cell(cell)]
    return line


def blocks(columns: Sequence[Size], limit: int | None) -> list[list[int]]:
    """The columns of each block, by number: one block if all columns have their least places within `limit`. Each block
    has the names, and at least one other column."""
    everything = list(range(len(columns)))

    def fits(block: Sequence[int]) -> bool:
        return limit is None or sum(columns[i].least for i in block) + GAP * (len(block) - 1) <= limit

    keys = [i for i in everything if columns[i].is_key]
    if fits(everything) or len(keys) == len(columns):
        return [everything]
    found = [keys]
    for i in everything:
        if columns[i].is_key:
            continue
        if found[-1] != keys and not fits([*found[-1], i]):
            found.append(keys)
        found[-1] = [*found[-1], i]
    return found


def fitted(columns: Sequence[Size], limit: int | None) -> list[int]:
    """Widths of the columns of one block within `limit` places; None = no limit. Of the columns that may be cut the
    widest is cut first, long texts before others, and names last. Columns that may not be cut can exceed the limit."""
    found = [column.needed for column in columns]
    if limit is None:
        return found
    texts = [i for i, column in enumerate(columns) if column.may_be_cut]
    longs = [i for i in texts if columns[i].is_long]
    keys = [i for i in texts if columns[i].is_key]
    others = [i for i in texts if i not in longs and i not in keys]
    steps = (
        (longs, TEXT),
        (others, TEXT),
        (longs, LONG),
        (keys, NAME),
        (longs + others, NARROWEST),
        (keys, NARROWEST),
        (texts, 1),
    )
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
