"""The simulation in small: some seeds hold, a seed replays exactly, and faults put in on purpose are noticed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from bcs_scheduler.core.controllers.cluster import loss_guard
from tests import effort
from tests.simulation import mutants
from tests.simulation.mutants import (
    MUTANTS,
    OF_GROUP_RESERVATIONS,
    OF_GROUPS,
    OF_GUARANTEES,
    OF_HOLDS,
    OF_MOVES,
    OF_PARTITIONS,
    OF_RESERVATIONS,
    OF_ROOMS,
    OF_SESSIONS,
    OF_TREES,
    Mutant,
)
from tests.simulation.simulation import simulate

ROOT = Path(__file__).parents[2]
STEPS = 300
MUST_HAPPEN = (
    "accept of invalid offers",
    "answers lost",
    "applications with stand-ins",
    "commands pushed out",
    "commit failed: stale",
    "commits beyond a third of the limit",
    "commits lost in crash",
    "fault: answer to ACCEPT lost",
    "fault: break stream",
    "fault: crash leader",
    "fault: depose leader",
    "fault: destroy agent",
    "fault: end of a task not told at registration",
    "fault: executor dies before its first status",
    "fault: executor's word lost",
    "fault: executor's word repeated late",
    "fault: fail master over",
    "fault: health flaps",
    "fault: launch never starts",
    "fault: message lost",
    "fault: partition agent",
    "fault: restart agent without executors",
    "fault: shift clock",
    "fault: update repeated late",
    "message: failed no answer from the exec",
    "message: failed the taskgroup has ended",
    "messages carried out",
    "reconciliation unanswered",
    "refused for the size",
    "reports that wait in lanes",
    "shutdowns",
    "standby reads",
    "standby reads everything",
    "transactions pushed out",
    "turns with lanes",
    "turns that wait for configuration",
)
"""Without these a clean run proves little."""


def counted(seeds: Iterable[int], **world: bool) -> Counter[str]:
    """Runs worlds, which must hold, and returns how often things happened in them. `world`: arguments of `simulate`."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        result = simulate(seed, STEPS, **world)
        assert result.violation is None, f"seed {seed}: {result.violation}\n" + "\n".join(result.story)
        counts.update(result.counts)
    return counts


WORLDS: dict[str, dict[str, bool]] = {
    "simple": {},
    "simple with moves": {"moves": True},
    "simple with groups": {"groups": True},
    "sessions": {"sessions": True},
    "reservations": {"reservations": True},
    "reservations that keep rooms": {"reservations": True, "kept": True},
    "reservations that hold room": {"reservations": True, "held": True},
    "reservations of groups": {"groups": True, "reservations": True},
    "trees of queues": {"trees": True},
    "trees of queues with moves": {"trees": True, "moves": True},
    "a policy for each role": {"mixed": True},
    "guarantees in a full cluster": {"guarantees": True},
}


@pytest.mark.parametrize("kind", WORLDS)
def test_worlds_of_every_policy_keep_the_rules(kind: str) -> None:
    """In every run, with other seeds in each share. How often rare things happen is counted by the tests below."""
    counted(effort.in_turn(7_001, 2), **WORLDS[kind])


@pytest.mark.rotating
def test_nothing_is_lost_and_nothing_runs_twice() -> None:
    counts = counted(range(1, 21))
    missing = [name for name in MUST_HAPPEN if not counts[name]]
    assert not missing, f"never happened: {missing}"
    assert counts["taskgroups running"] > 400


@pytest.mark.rotating
def test_outputs_of_failed_tasks_are_kept_within_their_bounds() -> None:
    counts = counted((77, 85, 93))
    assert counts["outputs kept"] and counts["outputs pushed out"] and counts["outputs removed with their application"]
    assert counts["outputs fetched"] and counts["outputs not fetched"]
    assert counts["outputs of failed tasks"] + counts["outputs fetched"] > counts["outputs kept"]


@pytest.mark.rotating
def test_a_seed_replays_exactly_whatever_the_hash_seed() -> None:
    """The decision log of one process is repeated by another one, which has another hash seed."""
    worlds = "[simulate(7, 150, trace=True), simulate(2, 150, trace=True, reservations=True, kept=True)]"
    here = [simulate(7, 150, trace=True), simulate(2, 150, trace=True, reservations=True, kept=True)]
    code = f"from tests.simulation.simulation import simulate; print([one.digest for one in {worlds}])"
    for hash_seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert there.stdout.strip() == str([one.digest for one in here])
    assert simulate(8, 150, trace=True).digest != here[0].digest


def _is_caught(mutant: Mutant, patch: pytest.MonkeyPatch, **kinds: bool) -> None:
    """One of the seeds of the mutant, in worlds of these kinds, breaks a rule that may notice the mutant."""
    mutant.breaks(patch)
    for seed in mutant.seeds:
        violation = simulate(seed, STEPS, **kinds).violation
        if violation is not None:
            assert violation.number in mutant.caught_by, str(violation)
            return
    pytest.fail(f"nobody noticed: {mutant.name}")


def test_every_fault_can_be_planted() -> None:
    """A run tries a part of the faults only, and one may replace what has got another name."""
    faults = [value for value in vars(mutants).values() if isinstance(value, tuple)]
    planted = [fault for table in faults for fault in table if isinstance(fault, Mutant)]
    assert len(planted) > 100
    for fault in planted:
        with pytest.MonkeyPatch.context() as patch:
            fault.breaks(patch)


@pytest.mark.rotating
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutants_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    _is_caught(mutant, monkeypatch)


@pytest.mark.rotating
def test_losses_that_count_as_large_stop_replacements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses of two agents count here, because five agents are rarely lost at once."""
    monkeypatch.setattr(loss_guard, "LEAST_AGENTS", 2)
    counts = counted(range(4, 10))
    assert counts["halts of replacements"]


@pytest.mark.rotating
def test_sessions_keep_gangs_whole_and_budgets() -> None:
    # 34: evictions; 22: a dry run of the reschedule of an unreachable taskgroup; 283: a turn ends between launches
    # of one GROUPBY
    counts = counted((*range(1, 9), 22, 34, 283), sessions=True)
    assert counts["gangs planned"] and counts["taskgroups evicted"] and counts["snapshots compared"]


@pytest.mark.rotating
@pytest.mark.parametrize("mutant", OF_SESSIONS, ids=lambda mutant: mutant.name)
def test_mutants_of_sessions_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    _is_caught(mutant, monkeypatch, sessions=True)


@pytest.mark.rotating
def test_groups_start_whole() -> None:
    counts = counted(range(1, 9), groups=True)
    assert counts["groups planned"]


@pytest.mark.rotating
@pytest.mark.parametrize("mutant", OF_GROUPS, ids=lambda mutant: mutant.name)
def test_mutants_of_groups_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    _is_caught(mutant, monkeypatch, groups=True)


@pytest.mark.rotating
def test_reservations_hold_their_room_and_leave_nothing() -> None:
    # 122: a user cancels the deletion of a placeholder
    counts = counted((*range(1, 9), 122), reservations=True)
    assert counts["reservations"] and counts["swaps"]


@pytest.mark.rotating
@pytest.mark.parametrize("mutant", OF_RESERVATIONS, ids=lambda mutant: mutant.name)
def test_mutants_of_reservations_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    _is_caught(mutant, monkeypatch, reservations=True)


@pytest.mark.rotating
def test_rooms_are_kept_for_placeholders_and_taken_over() -> None:
    counts = counted(range(1, 9), reservations=True, kept=True)
    assert counts["rooms kept"] and counts["rooms taken over"]


@pytest.mark.rotating
@pytest.mark.parametrize("mutant", OF_ROOMS, ids=lambda mutant: mutant.name)
def test_mutants_of_kept_rooms_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    _is_caught(mutant, monkeypatch, reservations=True, kept=True)


@pytest.mark.rotating
def test_room_is_held_for_placeholders_and_taken_over() -> None:
    # 16: a swap; 151: taskgroups take over held room; 149: a reservation has timed out when a leader begins
    counts = counted((*range(1, 9), 16, 149, 151), reservations=True, held=True)
    assert counts["turns with held room"] and counts["launches beside held room"] and counts["swaps"]


@pytest.mark.rotating
@pytest.mark.parametrize("mutant", OF_HOLDS, ids=lambda mutant: mutant.name)
def test_mutants_of_held_room_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    _is_caught(mutant, monkeypatch, reservations=True, held=True)


FORMS: tuple[dict[str, bool], ...] = ({}, {"kept": True}, {"held": True})


@pytest.mark.rotating
def test_members_of_a_group_wait_for_the_room_of_the_whole_group() -> None:
    counts: Counter[str] = Counter()
    # 3: what found no place in time is launched again; 15: several members of a group have reservations
    for seed in (1, 2, 3, 5, 15):
        counts += counted((seed,), groups=True, reservations=True, **FORMS[seed % 3 - 1])
    counted((7005,), groups=True, reservations=True)  # they begin after the last step of a turn
    assert counts["groups that start with their room"] and counts["reservations of several members"]


@pytest.mark.rotating
@pytest.mark.parametrize("mutant", OF_GROUP_RESERVATIONS, ids=lambda mutant: mutant.name)
def test_mutants_of_reservations_of_groups_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    _is_caught(mutant, monkeypatch, groups=True, reservations=True)


@pytest.mark.rotating
def test_the_tree_of_queues_changes_while_it_decides() -> None:
    # 73: the indexes are compared before the first turn of a leader; 910094: a leader works beside its successor
    counts = counted((*range(1, 9), 12, 73, 910094), trees=True)
    assert counts["turns with a changed tree"] and counts["queues of the tree judged"] and counts["limits judged"]
    assert counts["taskgroups evicted by queues"] and counts["snapshots compared"]


@pytest.mark.rotating
@pytest.mark.parametrize("mutant", OF_TREES, ids=lambda mutant: mutant.name)
def test_mutants_of_trees_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    _is_caught(mutant, monkeypatch, trees=True)


@pytest.mark.rotating
def test_moves_keep_budgets_and_room_and_end() -> None:
    # 27: taskgroups are moved toward more even agents, which few of the others do
    counts = counted((*range(1, 17), 27), moves=True)
    assert counts["moves to pack"] and counts["moves to spread"]


@pytest.mark.rotating
def test_moves_keep_the_rules_of_the_tree_of_queues() -> None:
    # few seeds move many taskgroups: those that wait in queues stop all moves
    counts = counted((25, 31), trees=True, moves=True)
    assert counts["moves to pack"] and counts["moves to spread"] and counts["queues of the tree judged"]


@pytest.mark.rotating
@pytest.mark.parametrize("mutant", OF_MOVES, ids=lambda mutant: mutant.name)
def test_mutants_of_moves_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    _is_caught(mutant, monkeypatch, moves=True)


@pytest.mark.rotating
def test_each_role_keeps_the_rules_of_its_policy() -> None:
    # 3000014: a member of a gang is restarted while the others have no place; 8000172: an application gets the name of
    # one that belonged to a deployment which is being deleted
    counts = counted((*range(1, 13), 3000014, 8000172), mixed=True)
    for policy in ("simple", "session", "hierarchical"):
        assert counts[f"turns of a partition with the policy {policy}"]
    assert counts["queues of the tree judged"] and counts["gangs planned"] and counts["snapshots compared"]
    assert counts["turns with two trees"] and counts["turns with a changed tree"]


@pytest.mark.rotating
@pytest.mark.parametrize("mutant", OF_PARTITIONS, ids=lambda mutant: mutant.name)
def test_mutants_of_partitions_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    _is_caught(mutant, monkeypatch, mixed=True)


@pytest.mark.rotating
def test_guarantees_of_queues_stay_in_a_full_cluster() -> None:
    # 34: an update makes an application smaller while a restart waits; 149 and 162: a gang preempts, among others;
    # 3000070: a fault chooses a taskgroup whose executor is never started
    counts = counted((*range(1, 25), 34, 149, 162, 3000070), guarantees=True)
    assert counts["taskgroups evicted by queues"] >= 10 and counts["gangs that preempt"]


@pytest.mark.rotating
@pytest.mark.parametrize("mutant", OF_GUARANTEES, ids=lambda mutant: mutant.name)
def test_mutants_of_guarantees_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    _is_caught(mutant, monkeypatch, guarantees=True)


POLICIES = ("hierarchical", "simple", "session", "mixed", "guarantees")


@pytest.mark.parametrize("policy", effort.check_few(POLICIES, 2, always=1))
def test_the_program_reports_the_events_and_exits_with_zero(policy: str) -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seeds", "2", "--steps", "80", "--policy", policy]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "2 seeds x 80 steps without a violation" in done.stdout
    assert "operation: CreateApplication" in done.stdout
