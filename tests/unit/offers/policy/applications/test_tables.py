"""The state machines of applications, tasks and placeholders: every row is legal, nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offers.policy.applications.tables import (
    APPLICATION,
    CORE_APPLICATION,
    HISTORY_LINES,
    PLACEHOLDER,
    TASK,
    TERMINATED,
    AppState,
    CoreState,
    IllegalEvent,
    Life,
    PlaceholderState,
    Table,
    TaskState,
)

TABLES = {table.kind: table for table in (CORE_APPLICATION, APPLICATION, TASK, PLACEHOLDER)}
STATES: dict[str, type] = {
    CORE_APPLICATION.kind: CoreState,
    APPLICATION.kind: AppState,
    TASK.kind: TaskState,
    PLACEHOLDER.kind: PlaceholderState,
}
ENDS = {
    CORE_APPLICATION.kind: {"Expired"},
    APPLICATION.kind: {"Completed", "Failed", "Killed"},
    TASK.kind: set(),
    PLACEHOLDER.kind: {"Gone"},
}
"""States without a way on. A completion of a task is accepted in every state."""
ROWS = {CORE_APPLICATION.kind: 18, APPLICATION.kind: 35, TASK.kind: 27}
"""The number of rows, one for each pair of event and state: those of the specification, and TaskReturned in two."""
PAIRS = [
    pytest.param(table, event, state, id=f"{table.kind}-{event}-{state}")
    for table in TABLES.values()
    for event in sorted({event for event, _ in table.rows})
    for state in sorted(table.states)
]


@pytest.mark.parametrize("kind", TABLES)
def test_tables_name_every_state_and_nothing_else(kind: str) -> None:
    assert TABLES[kind].states == set(STATES[kind])  # type: ignore[call-overload]


@pytest.mark.parametrize("kind", TABLES)
def test_every_state_can_be_reached_and_left_unless_final(kind: str) -> None:
    table = TABLES[kind]
    reached, before = {table.initial}, set[str]()
    while reached != before:
        before, reached = reached, reached | {to for (_, at), to in table.rows.items() if at in reached}
    assert reached == table.states
    assert table.states - {at for _, at in table.rows} == ENDS[kind]


@pytest.mark.parametrize("kind", ROWS)
def test_tables_are_as_long_as_specified(kind: str) -> None:
    assert len(TABLES[kind].rows) == ROWS[kind]


@pytest.mark.parametrize(("table", "event", "state"), PAIRS)
def test_rows_are_legal_and_everything_else_changes_nothing(table: Table, event: str, state: str) -> None:
    life = Life(table.kind, "one", state)
    if (event, state) in table.rows:
        after = table.after(life, event, 7.0)
        assert (after.state, after.key) == (table.rows[event, state], "one")
        assert after.history == ((7.0, event, state, after.state),)
    else:
        assert not table.allows(life, event)
        with pytest.raises(IllegalEvent) as refused:
            table.after(life, event, 7.0)
        assert refused.value.life is life
    assert life == Life(table.kind, "one", state)


@pytest.mark.parametrize(
    ("table", "path"),
    [
        (CORE_APPLICATION, "run Accepted run Running complete Completing run Running complete Completing complete "
                           "Completed expire Expired"),
        (CORE_APPLICATION, "run Accepted resume Resuming run Accepted fail Failing fail Failed expire Expired"),
        (APPLICATION, "Submit Submitted Accept Accepted TryReserve Reserving UpdateReservation Reserving Run Running "
                      "Complete Completed"),
        (APPLICATION, "Recover Recovering Accept Accepted TryReserve Reserving Resuming Resuming AppTaskCompleted "
                      "Resuming Run Running Kill Killing Killed Killed"),
        (APPLICATION, "Submit Submitted Reject Rejected Fail Failed"),
        (TASK, "InitTask Pending SubmitTask Scheduling TaskAllocated Allocated TaskBound Bound CompleteTask Completed "
               "TaskAllocated Completed"),
        (TASK, "TaskRejected Rejected TaskFail Failed CompleteTask Completed"),
    ],
)  # fmt: skip
def test_lives_take_the_specified_paths(table: Table, path: str) -> None:
    life, steps = table.born("one"), path.split()
    for at, (event, state) in enumerate(zip(steps[::2], steps[1::2], strict=True)):
        life = table.after(life, event, float(at))
        assert life.state == state


def test_an_illegal_event_shows_the_history_of_its_object() -> None:
    life = TASK.after(TASK.after(TASK.born("job/t0"), "InitTask", 1.5), "SubmitTask", 2.0)
    with pytest.raises(IllegalEvent) as refused:
        TASK.after(life, "TaskBound", 3.0)
    assert str(refused.value) == (
        "task job/t0: no event TaskBound in the state Scheduling; "
        "1.500 InitTask: New to Pending; 2.000 SubmitTask: Pending to Scheduling"
    )


def test_the_history_has_the_latest_changes() -> None:
    life = APPLICATION.after(APPLICATION.after(APPLICATION.born("a"), "Submit", 0.0), "Accept", 0.5)
    for at in range(1, 31):
        life = APPLICATION.after(life, "Run", float(at))
    assert [change.at for change in life.history] == [float(at) for at in range(31 - HISTORY_LINES, 31)]


@given(st.sampled_from(sorted(TABLES)), st.lists(st.text("abc", min_size=1) | st.nothing(), max_size=3), st.data())
def test_states_change_by_rows_alone(kind: str, strange: list[str], data: st.DataObject) -> None:
    table = TABLES[kind]
    life = table.born("one")
    events = sorted({event for event, _ in table.rows}) + strange
    for at, event in enumerate(data.draw(st.lists(st.sampled_from(events), max_size=25))):
        before, legal = life, table.allows(life, event)
        if legal:
            life = table.after(life, event, float(at))
            assert table.rows[event, before.state] == life.state
        else:
            with pytest.raises(IllegalEvent):
                table.after(life, event, float(at))
            assert life == before


def test_a_table_with_two_rows_for_one_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="two rows for the event go in the state A"):
        Table("x", "A", [("go", "A", "B"), ("go", "A", "C")])


def test_terminated_tasks_can_be_neither_started_nor_killed() -> None:
    for state in TaskState:
        legal = {event for event, at in TASK.rows if at == state}
        assert (state in TERMINATED) is not bool(legal & {"InitTask", "SubmitTask", "KillTask", "TaskKilled"})
