"""Tables: widths, cut cells, left-out columns; orders of lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcs_scheduler.cli.output.sorting import in_order, natural
from bcs_scheduler.cli.output.tables import GAP, Column, age_column, fitted, reason_column, table

COLUMNS = (
    Column("NAME", lambda i: i["name"]),
    Column("STATUS", lambda i: i["status"]),
    Column("ID", lambda i: "x" * 60, wide=True),
    reason_column(lambda i: i.get("reason")),
)
LONG = "cannot start /no/such/program: No such file or directory, which is a long story"


def lines(items: list[dict[str, str]], width: int | None, **options: Any) -> list[str]:
    return [line.plain for line in table(COLUMNS, items, **options).lines(width)]


def test_a_narrow_table_cuts_the_long_column_and_keeps_one_line_per_row() -> None:
    shown = lines([{"name": "web-0", "status": "Failed", "reason": LONG}], 40)
    assert shown == ["NAME   STATUS  REASON", "web-0  Failed  cannot start /no/such/pr…"]
    assert len(shown[1]) == 40


def test_a_column_of_reasons_is_left_out_when_all_is_right() -> None:
    assert lines([{"name": "web-0", "status": "Running"}], 80) == ["NAME   STATUS", "web-0  Running"]


@pytest.mark.parametrize(("width", "options"), [(None, {}), (20, {"wide": True})])
def test_files_and_wide_tables_have_whole_cells(width: int | None, options: dict[str, bool]) -> None:
    shown = lines([{"name": "web-0", "status": "Failed", "reason": LONG}], width, **options)
    assert shown[1].endswith(LONG)
    assert ("x" * 60 in shown[1]) == bool(options)


def test_lines_in_a_cell_become_one_and_wide_letters_count_twice() -> None:
    assert lines([{"name": "a", "status": "b\nc"}], 80)[1] == "a     b c"
    assert lines([{"name": "\u4e2d\u6587\u540d\u5b57", "status": "x"}], 80)[1] == "\u4e2d\u6587\u540d\u5b57  x"


def test_titles_can_be_left_out() -> None:
    assert lines([{"name": "a", "status": "b"}], 80, headers=False) == ["a  b"]


@given(
    st.lists(st.tuples(st.integers(1, 90), st.booleans()), min_size=1, max_size=9).flatmap(
        lambda columns: st.tuples(st.just(columns), st.integers(3 * len(columns), 200))
    )
)
def test_widths_fit_and_nothing_is_cut_without_need(given: tuple[list[tuple[int, bool]], int]) -> None:
    columns, limit = given
    widths = [width for width, _ in columns]
    found = fitted(widths, [long for _, long in columns], limit)
    gaps = GAP * (len(columns) - 1)
    assert sum(found) + gaps <= limit
    assert all(1 <= new <= old for new, old in zip(found, widths, strict=True))
    if sum(widths) + gaps <= limit:
        assert found == widths
    else:
        assert sum(found) + gaps == limit


def test_the_name_is_cut_last() -> None:
    assert fitted([31, 10, 6, 40], [False, False, False, True], 60)[0] == 31


def test_natural_order() -> None:
    names = ["web-10", "web-2", "web", "Web-1", "agent-1", "7"]
    assert sorted(names, key=natural) == ["7", "Web-1", "agent-1", "web", "web-2", "web-10"]


def test_values_of_several_types_have_an_order_and_missing_ones_are_last() -> None:
    assert in_order([None, "b", 2, "a10", "a9", 1.5, ""], lambda value: value) == [1.5, 2, "a9", "a10", "b", None, ""]


def test_ages_are_ordered_by_time_and_not_by_text() -> None:
    column = age_column("AGE", lambda item: item)
    assert column.order is not None
    assert in_order([100, 300, 200], column.order) == [300, 200, 100]
