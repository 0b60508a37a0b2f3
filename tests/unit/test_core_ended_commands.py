"""How many ended commands are kept, which go first, and what it costs to remove them."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.controllers import ended_commands
from bcs_scheduler.core.controllers.ended_commands import remove
from bcs_scheduler.core.controllers.ended_objects import EndedObjects
from bcs_scheduler.core.interface import cluster_manager, effects, requests
from bcs_scheduler.core.options import CoreOptions
from store.records import Command, Message, MessageResult, Record
from tests.counting import lines
from tests.unit.lab import Lab, running
from tests.unit.test_core_offer_manager import Hasty

YEAR = 365 * 86_400.0


def bounded(**fields: Any) -> CoreOptions:
    return CoreOptions(strict=True, **fields)


def told(lab: Lab, *, answered: bool = True, size: int = 0, **fields: Any) -> str:
    """The id of a new command that is kept for a year, whose executors have answered with `size` characters each."""
    lab.now += 0.01
    asked = {"body": {"signal": 1}, "timeout": 600.0, "reserve": YEAR, **fields}
    reply = lab.ask(requests.CreateCommand(namespace="default", name="web", type="signal", **asked))
    assert not reply.error, reply.message
    identity: str = reply.data["commandID"]
    for message in list(lab.core.state.messages_of(identity).values()) if answered else ():
        results = tuple(MessageResult(task=task, ok=True, stdout="x" * size) for task in message.tasks)
        lab.turn(
            cluster_manager.MessageAnswered(
                agent_id="agent-1",
                executor_id=message.taskgroup,
                message_id=message.id,
                status="success",
                results=results,
            )
        )
    return identity


def kept(lab: Lab) -> list[str]:
    lab.turn()
    lab.turn()
    return list(lab.core.state.commands)


def ended(number: int, *, messages: int = 1, application: str = "web", at: float) -> list[Record]:
    """A command as a leader before has left it."""
    command = Command(
        id=f"Application-default-{application}-{number}",
        type="signal",
        namespace="default",
        application=application,
        targets=messages,
        created_at=at,
        deadline=at + 60,
        keep_until=at + YEAR,
    )
    answers: list[Record] = [
        Message(
            id=f"{number}{each:06}",
            command=command.id,
            taskgroup="gone",
            status="success",
            created_at=at,
            completed_at=at,
        )
        for each in range(messages)
    ]
    return [command, *answers]


def test_the_newest_ended_commands_of_an_application_are_kept_with_their_messages() -> None:
    lab = running(2, bounded(command_keep=3))
    all_ = [told(lab) for _ in range(6)]
    assert kept(lab) == all_[-3:]
    assert {message.command for message in lab.core.state.messages.values()} == set(all_[-3:])


def test_a_command_without_all_its_answers_is_kept_and_counts_from_its_end() -> None:
    lab = running(1, bounded(command_keep=2))
    open_ = told(lab, answered=False)
    newer = [told(lab) for _ in range(4)]
    assert kept(lab) == [open_, *newer[-2:]]
    (message,) = lab.core.state.messages_of(open_).values()
    lab.turn(
        cluster_manager.MessageAnswered(
            agent_id="agent-1", executor_id=message.taskgroup, message_id=message.id, status="success"
        )
    )
    assert kept(lab) == [open_, newer[-1]], "it has ended last"


def test_each_application_keeps_its_own() -> None:
    lab = running(1, bounded(command_keep=1))
    others = [record for number in range(3) for record in ended(number + 1, application=f"a-{number}", at=lab.now)]
    after = Lab(lab.options, [*lab.records(), *others], lab.now)
    mine = [told(after) for _ in range(2)]
    assert kept(after) == [c.id for c in others if isinstance(c, Command)] + mine[-1:]


def test_commands_are_bounded_in_all_by_the_size_of_their_messages() -> None:
    """A command of one message takes 2 kB, and 1 kB more for each 1000 characters."""
    lab = running(1, bounded(command_keep=100, command_keep_total=20))
    small = [told(lab) for _ in range(12)]
    assert kept(lab) == small[-10:]
    large = told(lab, size=9_500)
    assert kept(lab) == [*small[-4:], large]


def test_the_command_that_has_ended_last_is_kept_whatever_its_size() -> None:
    lab = running(5, bounded(command_keep_total=3))
    first, second = told(lab), told(lab)
    assert kept(lab) == [second] and first != second
    assert len(lab.core.state.messages_of(second)) == 5


def test_a_command_that_its_user_deletes_at_once_pushes_out_no_other() -> None:
    """Found by the simulation, policy session, seed 910032."""
    lab = running(1, bounded(command_keep=1))
    first = told(lab)
    assert kept(lab) == [first]
    second = told(lab)
    assert not lab.ask(requests.DeleteCommand(id=second)).error
    assert kept(lab) == [first]


def test_a_command_is_not_removed_while_its_messages_are_written() -> None:
    """Its messages fail at once, so none is open after each turn. Another command begins later and ends earlier."""
    lab = running(10, bounded(command_keep=1))
    for group in lab.groups:
        lab.core.turn_context.uow.put(msgspec.structs.replace(group, executor="mesos"))
    lab.core.turn_context.cut()
    asked = requests.CreateCommand(
        namespace="default", name="web", type="signal", body={"signal": 1}, reserve=YEAR, token=1
    )
    lab.core.turn((asked,), lab.now, Hasty())
    (writing,) = lab.core.turn_context.incomplete
    one = msgspec.structs.replace(asked, taskgroups=(lab.groups[0].id,), token=2)
    lab.now += 0.01
    lab.core.turn((one,), lab.now, Hasty())
    (quick,) = set(lab.core.state.commands) - {writing}
    for _ in range(10):
        lab.core.turn((), lab.now, Hasty())
    assert lab.core.turn_context.incomplete == {writing}
    assert not any(message.open for message in lab.core.state.messages.values())
    assert kept(lab) == [writing], f"{quick} has ended before"
    assert len(lab.core.state.messages_of(writing)) == 10


def test_a_command_whose_last_message_is_open_has_not_ended() -> None:
    """The first message has failed when it is written, the last one is written in the turn that ends the writing."""
    lab = running(2, bounded(command_keep=1))
    lab.core.turn_context.uow.put(msgspec.structs.replace(lab.group(0), executor="mesos"))
    lab.core.turn_context.cut()
    asked = requests.CreateCommand(
        namespace="default", name="web", type="signal", body={"signal": 1}, reserve=YEAR, token=1
    )
    for _ in range(2):
        lab.now += 0.01
        lab.core.turn((asked,), lab.now, Hasty())
        assert lab.core.turn_context.incomplete
        lab.turn()
    first, second = kept(lab)
    assert {message.command for message in lab.core.state.messages.values() if message.open} == {first, second}


def test_a_successor_keeps_the_same_commands_and_knows_which_ended_first() -> None:
    lab = running(1, bounded(command_keep=2))
    open_ = told(lab, answered=False)
    newer = [told(lab) for _ in range(2)]
    successor = lab.succeed()
    assert kept(successor) == [open_, *newer]
    (message,) = successor.core.state.messages_of(open_).values()
    successor.turn(
        cluster_manager.MessageAnswered(
            agent_id="agent-1", executor_id=message.taskgroup, message_id=message.id, status="success"
        )
    )
    assert kept(successor) == [open_, newer[-1]]


def test_what_a_crash_has_left_of_a_command_has_ended() -> None:
    """Fewer messages than targets, or none at all: nobody will write the others."""
    lab = running(1, bounded(command_keep=1))
    torn = [msgspec.structs.replace(ended(n, messages=0, at=lab.now)[0], targets=5) for n in (1, 2)]
    after = Lab(lab.options, [*lab.records(), *torn], lab.now)
    assert kept(after) == [torn[-1].key]


def test_a_command_with_very_many_messages_is_removed_in_slices_and_its_record_last() -> None:
    lab = running(1, bounded(command_keep=1))
    many = ended(1, messages=2_000, at=lab.now)
    after = Lab(lab.options, [*lab.records(), *many, *ended(2, at=lab.now + 1)], lab.now)
    while many[0].key in after.core.state.commands:
        after.now += 1.0
        units = after.core.turn((), after.now)
        removed = [change for unit in units for change in unit.changes if change.record is None]
        assert 0 < len(removed) <= ended_commands.AT_ONCE + 1
        assert after.core.state.commands.get(many[0].key) or not after.core.state.messages_of(many[0].key)
    assert kept(after) == ["Application-default-web-2"]
    assert len(after.core.state.messages) == 1


def test_a_command_is_removed_once_its_time_is_over_also_without_any_other() -> None:
    lab = running(1)
    told(lab, reserve=700.0)
    lab.wait(690)
    assert len(lab.core.state.commands) == 1
    lab.wait(12)
    assert not lab.core.state.commands and not lab.core.state.messages


def test_a_message_without_an_answer_comes_to_its_last_word_before_its_command_is_removed() -> None:
    """The reserve time ends with the deadline."""
    lab = running(1)
    told(lab, answered=False, timeout=30.0, reserve=1.0)
    completed = [e for e in lab.wait(95) if isinstance(e, effects.Observed) and e.name == "message_completed"]
    assert [(e.labels[2], e.labels[3]) for e in completed] == [("signal", "failed")]
    assert not lab.core.state.commands and not lab.core.state.messages


def test_a_command_that_ends_by_its_deadline_goes_in_the_next_turn() -> None:
    """A turn without changes leaves nothing to do: otherwise the rest is taken for the work of the next event."""
    lab = running(2, bounded(command_keep=1))
    late = told(lab, answered=False, timeout=30.0)
    told(lab)
    lab.now += 30.0 + lab.options.answer_timeout
    changed: list[int] = []
    for _ in range(5):
        units = lab.core.turn([], lab.now)
        changed.append(sum(change.kind in ("command", "message") for unit in units for change in unit.changes))
    assert changed == [2, 3, 0, 0, 0]
    assert list(lab.core.state.commands) == [late]


def test_a_removal_that_fails_is_tried_again_and_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = running(1, CoreOptions(command_keep=1))
    honest = remove
    first = told(lab)

    def broken(turn: Any, command: Command) -> Any:
        if command.id == first:
            raise RuntimeError("broken")
        return honest(turn, command)

    monkeypatch.setattr(ended_commands, "remove", broken)
    last = [told(lab) for _ in range(3)][-1]
    assert kept(lab) == [first, last]
    assert any(isinstance(e, effects.LogLine) and e.reason == "InternalError" for e in lab.wait(60))
    monkeypatch.undo()
    lab.wait(60)
    assert kept(lab) == [last]


# --- costs ------------------------------------------------------------------------------------------------------------


def test_a_command_costs_the_same_beside_many_others() -> None:
    """Its answer, its end, and the removal of the one that it pushes out."""
    counts: list[int] = []
    for others in (50, 5_000):
        lab = running(1, bounded(command_keep=10))
        crowd = [
            record
            for number in range(others)
            for record in ended(number + 1, application=f"a-{number // 10}", at=lab.now)
        ]
        full = Lab(lab.options, [*lab.records(), *crowd], lab.now)
        for _ in range(12):
            told(full)
        kept(full)
        assert len(full.core.state.commands) == others + 10
        counts.append(lines(lambda full=full: (told(full), kept(full))))  # type: ignore[misc]
        assert len(full.core.state.commands) == others + 10
    assert counts[1] <= 1.1 * counts[0], counts


def test_the_front_of_many_is_removed_in_constant_time() -> None:
    """The front of a plain dictionary is found by a walk over all that was removed before."""
    times = []
    for number in (2_000, 200_000):
        shelves: EndedObjects[str] = EndedObjects(number, 1)
        for each in range(number):
            shelves.add(str(each), "one")
        began = time.thread_time()
        while (oldest := shelves.surplus()) is not None:
            shelves.remove(oldest)
        times.append((time.thread_time() - began) / number)
        assert len(shelves) == 1 and shelves.oldest() == str(number - 1)
    assert times[1] < 5 * times[0], times
