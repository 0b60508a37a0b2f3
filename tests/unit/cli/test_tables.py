"""Tables: widths, cut cells, left-out columns; orders of lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcs_scheduler.cli.output.sorting import in_order, natural
from bcs_scheduler.cli.output.tables import GAP, Column, Size, age_column, blocks, fitted, reason_column, table

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


WIDE_TABLE = (
    Column("NAME", lambda i: i["name"]),
    Column("STATUS", lambda i: i["status"]),
    Column("USED", lambda i: i["used"], right=True),
    Column("LIMITS", lambda i: i["limits"], whole=True),
    Column("FREE", lambda i: i["free"], right=True),
    Column("WHY", lambda i: i["why"], long=True),
)
ITEM = {"name": "shop", "status": "Running", "used": "123456", "limits": "cpus=8,mem=16384", "free": "9", "why": LONG}


def wide_lines(width: int, **more: str) -> list[str]:
    return [line.plain for line in table(WIDE_TABLE, [{**ITEM, **more}]).lines(width)]


def test_numbers_are_never_cut_and_columns_without_room_follow_below() -> None:
    assert wide_lines(60) == [
        "NAME  STATUS     USED  LIMITS            FREE  WHY",
        "shop  Running  123456  cpus=8,mem=16384     9  cannot start…",
    ]
    assert wide_lines(40) == [
        "NAME  STATUS     USED  LIMITS",
        "shop  Running  123456  cpus=8,mem=16384",
        "",
        "NAME  FREE  WHY",
        "shop     9  cannot start /no/such/progr…",
    ]
    assert wide_lines(30)[::3] == ["NAME  STATUS     USED", "NAME  LIMITS            FREE", "NAME  WHY"]


def test_a_number_without_any_room_is_whole_all_the_same() -> None:
    assert [line for line in wide_lines(8) if "cpus" in line] == ["…  cpus=8,mem=16384"]


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("http=31000, admin=31001", 20, "http=31000, admin=…"),
        ("http=31000, admin=31001", 11, "http=31000…"),
        ("12345 lack CPUs", 4, "…"),
        ("at 10.20.30.40:8080", 14, "at …"),
        ("\u4e2d\u6587 31000 ports", 8, "\u4e2d\u6587 …"),
    ],
)
def test_a_text_is_not_cut_within_a_number(text: str, width: int, shown: str) -> None:
    (line,) = table((Column("X", lambda i: i["x"]),), [{"x": text}], headers=False).lines(width)
    assert line.plain == shown


NUMBER, LONG_TEXT, TEXT = (Column("", str, right=True), Column("", str, long=True), Column("", str))


@given(
    st.lists(st.tuples(st.integers(1, 90), st.sampled_from((NUMBER, LONG_TEXT, TEXT))), min_size=1, max_size=9),
    st.integers(8, 200),
)
def test_blocks_fit_and_nothing_is_cut_without_need(given: list[tuple[int, Column]], limit: int) -> None:
    columns = [Size(needed, column, number == 0) for number, (needed, column) in enumerate(given)]
    parts = blocks(columns, limit)
    assert sorted({i for part in parts for i in part}) == list(range(len(columns)))
    assert all(part[0] == 0 and (len(part) > 1 or len(columns) == 1) for part in parts)
    for part in parts:
        shown = [columns[i] for i in part]
        found = fitted(shown, limit)
        gaps = GAP * (len(part) - 1)
        assert all(1 <= new <= old.needed for new, old in zip(found, shown, strict=True))
        assert all(new == old.needed for new, old in zip(found, shown, strict=True) if not old.may_be_cut)
        if sum(column.needed for column in shown) + gaps <= limit:
            assert found == [column.needed for column in shown]
        elif sum(column.least for column in shown) + gaps <= limit:
            assert sum(found) + gaps == limit
            assert all(new >= old.least for new, old in zip(found, shown, strict=True))
        else:
            assert len(part) <= 2, "only a number that is wider than the terminal exceeds it"


def test_the_name_is_cut_last() -> None:
    sizes = [Size(31, TEXT, True), Size(10, TEXT, False), Size(6, TEXT, False), Size(40, LONG_TEXT, False)]
    assert fitted(sizes, 60)[0] == 31


def test_natural_order() -> None:
    names = ["web-10", "web-2", "web", "Web-1", "agent-1", "7"]
    assert sorted(names, key=natural) == ["7", "Web-1", "agent-1", "web", "web-2", "web-10"]


def test_values_of_several_types_have_an_order_and_missing_ones_are_last() -> None:
    assert in_order([None, "b", 2, "a10", "a9", 1.5, ""], lambda value: value) == [1.5, 2, "a9", "a10", "b", None, ""]


def test_ages_are_ordered_by_time_and_not_by_text() -> None:
    column = age_column("AGE", lambda item: item)
    assert column.order is not None
    assert in_order([100, 300, 200], column.order) == [300, 200, 100]
