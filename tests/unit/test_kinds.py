"""Kinds of transactions are objects: everybody asks them, and nobody compares the type of a transaction."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, get_args

import pytest

from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.api.views.transactions import show_transaction
from bcs_scheduler.core.options import CoreOptions
from store.records import (
    Application,
    ApplicationType,
    Payload,
    ReschedulePayload,
    RollingPayload,
    TaskGroup,
    Transaction,
    TransactionKind,
)
from store.records import transactions as records
from store.state import State
from store.state.reader import StateReader
from tests.sources import ROOMS, sources
from tests.unit.lab import Lab, running
from transactions import base, groups
from transactions.base import Context, Periods, Progress, Step, Terms
from transactions.kinds import daemonset, delete, fill, launch, registry, reschedule, scale, update
from transactions.kinds.kind import Kind
from transactions.kinds.registry import kind_of, progress

PROGRAMS = ("bcs_scheduler/executor/", "bcs_scheduler/local/", "bcs_scheduler/mesos/", "bcs_scheduler/cli/")
"""Programs and adapters that know other things of these names, or read answers of the API."""
OF_TRANSACTIONS = ("transactions/kinds/",)
OF_APPLICATIONS = ("transactions/rules/application_types.py", "store/records/running.py", "bcs_scheduler/api/")
TYPES: tuple[TransactionKind, ...] = get_args(TransactionKind)


# --- the source ---------------------------------------------------------------------------------------------------


def compared(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str, bool]]:
    """Line of each text that the program compares something with; whether it compares an attribute `type`."""
    for node in nodes:
        if isinstance(node, ast.Compare):
            parts = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
            typed = any(isinstance(part, ast.Attribute) and part.attr == "type" for part in parts)
            found = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            yield from ((node.lineno, text, typed) for text in found)
        elif isinstance(node, ast.Match):
            typed = isinstance(node.subject, ast.Attribute) and node.subject.attr == "type"
            for case in node.cases:
                for part in ast.walk(case.pattern):
                    if isinstance(part, ast.MatchValue) and isinstance(part.value, ast.Constant):
                        yield part.value.lineno, str(part.value.value), typed


def comparisons(wanted: tuple[str, ...], allowed: tuple[str, ...], *, typed: bool) -> list[str]:
    """Places that compare something, with `typed` an attribute `type`, with one of these words."""
    found = []
    for source in sources(*ROOMS):
        if source.name.startswith((*allowed, *PROGRAMS)):
            continue
        for line, text, of_type in compared(source.nodes):
            if text in wanted and (of_type or not typed):
                found.append(f"{source.name}:{line}: {text}")
    return found


def test_nobody_but_the_kinds_compares_the_type_of_a_transaction() -> None:
    unique = tuple(name for name in TYPES if name != "DELETE")
    assert comparisons(unique, OF_TRANSACTIONS, typed=False) == []
    assert comparisons(("DELETE",), OF_TRANSACTIONS, typed=True) == [], "a method of HTTP and half of a step, too"


def test_one_module_says_what_it_means_that_an_application_is_a_daemonset() -> None:
    assert comparisons(("daemonset",), OF_APPLICATIONS, typed=True) == []
    assert "daemonset" in get_args(ApplicationType)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('t.type == "DELETE"', ("DELETE", True)),
        ('t.type in ("SCALE", "LAUNCH")', ("LAUNCH", True)),
        ('(t.type, t.status) == ("DELETE", "FAIL")', ("DELETE", True)),
        ('kind = t.type\nkind != "UPDATE"', ("UPDATE", False)),
        ('match t.type:\n case "SCALE" | "LAUNCH": pass', ("SCALE", True)),
    ],
)
def test_a_comparison_is_recognized(code: str, found: tuple[str, bool]) -> None:
    assert found in [(text, typed) for _, text, typed in compared(ast.walk(ast.parse(code)))]


# --- the registry -------------------------------------------------------------------------------------------------


def transaction(kind: TransactionKind, *, inner: bool = False, payload: Payload = records.NOTHING) -> Transaction:
    return Transaction(
        id="t-1", type=kind, namespace="default", application="web", created_at=1.0, due_at=2.0, deadline=9.0,
        inner=inner, payload=payload,
    )  # fmt: skip


def application(**fields: Any) -> Application:
    return Application(namespace="default", name="web", **fields)


def test_every_kind_is_registered_under_its_name() -> None:
    assert set(registry.KINDS) == set(records.PAYLOADS) == set(TYPES)
    for table in (registry.KINDS, registry.INNER):
        assert all(kind.type == name for name, kind in table.items())


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (transaction("LAUNCH"), launch.LAUNCH),
        (transaction("LAUNCH", inner=True), daemonset.LAUNCH),
        (transaction("SCALE"), scale.SCALE),
        (transaction("INNERSCALE", inner=True), scale.INNER_SCALE),
        (transaction("INNERSCALE", inner=True, payload=RollingPayload(victims=("0.web",))), scale.SHRINK),
        (transaction("UPDATE"), update.UPDATE),
        (transaction("UPDATE", inner=True), daemonset.UPDATE),
        (transaction("RESCHEDULE"), reschedule.RESCHEDULE),
        (transaction("RESCHEDULE", inner=True), reschedule.RESCHEDULE),
        (transaction("DELETE", inner=True), delete.DELETE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_lookup_finds_the_form_of_each_transaction(kind: Transaction, found: Kind) -> None:
    assert kind_of(State(), kind) is found


def test_on_a_side_of_a_rolling_update_only_the_number_counts() -> None:
    growing = State([application(rolling="up")])
    assert kind_of(growing, transaction("INNERSCALE", inner=True)) is scale.GROW
    assert kind_of(State([application()]), transaction("INNERSCALE", inner=True)) is scale.INNER_SCALE


@pytest.mark.parametrize(
    ("kind", "inner", "seconds"),
    [
        (launch.LAUNCH, False, 1800.0),
        (daemonset.LAUNCH, True, 86400.0),
        (scale.SCALE, False, 480.0),
        (scale.INNER_SCALE, True, 300.0),
        (update.UPDATE, False, 480.0),
        (daemonset.UPDATE, True, 86400.0),
        (reschedule.RESCHEDULE, False, 480.0),
        (reschedule.RESCHEDULE, True, 86400.0),
        (delete.DELETE, False, 7500.0),
        (delete.DELETE, True, 7500.0),
    ],
)
def test_each_kind_has_its_life(kind: Kind, inner: bool, seconds: float) -> None:
    assert kind.life(Periods(), inner=inner) == seconds


def test_what_works_on_one_taskgroup_goes_on_beside_operations_on_the_application() -> None:
    kinds = [*registry.KINDS.values(), *registry.INNER.values()]
    assert [kind for kind in kinds if not kind.exclusive] == [reschedule.RESCHEDULE, fill.FILL, daemonset.LAUNCH]
    assert [kind for kind in kinds if kind.deletes] == [delete.DELETE]
    assert [kind for kind in kinds if kind.sizes] == [launch.LAUNCH, scale.SCALE]


# --- a kind that nobody knows -------------------------------------------------------------------------------------


class EvictionPayload(Payload, frozen=True, kw_only=True):
    taskgroup: str = ""


class Eviction(Kind):
    """Ends a taskgroup and succeeds when it is gone."""

    type: ClassVar[Any] = "EVICTION"
    exclusive = False

    def step(self, ctx: Context, transaction: Transaction) -> Step:
        group = ctx.state.taskgroups.get(transaction.taskgroup)
        if group is None:
            return Step(verdict=("FINISH", "evicted"))
        if group.ended:
            groups.remove(ctx, group, "evicted")
        else:
            groups.end(ctx, group, "Drained", "for the test")
        return Step()

    def handles(self, ctx: Context, transaction: Transaction, application: Application, group: TaskGroup) -> bool:
        return group.id == transaction.taskgroup

    def progress(self, state: StateReader, transaction: Transaction) -> Progress:
        left = int(transaction.taskgroup in state.taskgroups)
        return Progress(1 - left, left)

    def late(self, ctx: Context, transaction: Transaction) -> str:
        return f"{transaction.taskgroup} has not ended"


@pytest.fixture
def eviction(monkeypatch: pytest.MonkeyPatch) -> Eviction:
    """A kind beside those of the registry: a class, its line in the registry, its payload."""
    kind = Eviction()
    monkeypatch.setattr(registry, "KINDS", dict[Any, Any](registry.KINDS) | {"EVICTION": kind})
    monkeypatch.setattr(records, "PAYLOADS", dict[Any, Any](records.PAYLOADS) | {"EVICTION": EvictionPayload})
    return kind


def begin(lab: Lab, kind: Eviction) -> Transaction:
    turn, group = lab.core.turn_context, lab.group()
    turn.start(lab.now, "test")
    terms = Terms(target=1, note=f"eviction of {group.id}")
    return base.begin(turn.context, kind, lab.application, terms, EvictionPayload(taskgroup=group.id))


def test_a_kind_that_nobody_else_knows_is_driven_to_its_end(eviction: Eviction) -> None:
    lab = running(2)
    group = lab.group()
    begun = begin(lab, eviction)
    lab.turn()
    assert lab.core.state.taskgroups[group.id].killing_since
    assert progress(lab.core.state, begun) == Progress(0, 1)
    assert show_transaction(lab.core.state, begun).cur_op["opType"] == "EVICTION"
    shown = explain_application(lab.core.state, lab.application, lambda identity: None, lab.now)
    assert [operation.type for operation in shown.transactions] == ["EVICTION"]
    assert not lab.scale(2).error, "it goes on beside other operations"
    successor = lab.succeed()
    successor.report(successor.group(), "KILLED")
    successor.turn()
    ended = successor.core.state.transactions[begun.id]
    assert (ended.status, ended.message, ended.progress) == ("FINISH", "evicted", 1)
    assert group.id not in successor.core.state.taskgroups


def test_a_kind_that_nobody_else_knows_runs_out_of_time_in_its_own_words(eviction: Eviction) -> None:
    lab = running(1, CoreOptions(strict=True))
    begun = begin(lab, eviction)
    lab.wait(Periods().default + 1)
    ended = lab.core.state.transactions[begun.id]
    assert (ended.status, ended.message) == ("TIMEOUT", f"after 8m {begun.taskgroup} has not ended")


def test_a_taskgroup_that_one_transaction_works_on_is_told_by_its_payload() -> None:
    lab = running(1)
    failed = lab.group()
    lab.report(failed, "FAILED")
    found = lab.transaction("RESCHEDULE")
    assert found.taskgroup == failed.id == ReschedulePayload.of(found).taskgroup
    assert not lab.transaction("LAUNCH").taskgroup
