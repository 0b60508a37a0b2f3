"""Open commands are bounded: by namespace, in all, and by what their records take, not by their number."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import cluster_manager, effects, requests
from bcs_scheduler.core.open_commands import size_of
from bcs_scheduler.core.options import CoreOptions
from store.records import Command, Message, MessageResult
from store.state import State
from tests.unit.lab import Lab, running, version
from tests.unit.test_core_ended_commands import YEAR, ended
from tests.unit.test_core_limits import change, containers


def bounded(**fields: Any) -> CoreOptions:
    return CoreOptions(strict=True, **fields)


def tell(lab: Lab, *, application: str = "web", **fields: Any) -> effects.Reply:
    asked = {"body": {"signal": 1}, "timeout": 600.0, "reserve": YEAR, **fields}
    return lab.ask(requests.CreateCommand(namespace="default", name=application, type="signal", **asked))


def answer(lab: Lab, command: str, size: int = 0) -> None:
    for message in list(lab.core.state.messages_of(command).values()):
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


def counted(state: State, *, namespace: str = "") -> int:
    """The sum, made anew from the records."""
    total = 0
    for command in state.commands.values():
        messages = list(state.messages_of(command.id).values())
        if any(message.open for message in messages) and namespace in ("", command.namespace):
            total += 1 + len(msgspec.json.encode(command.body)) // 1000
            total += sum(1 if message.open else size_of(message) for message in messages)
    return total


def test_a_command_beyond_the_bound_of_its_namespace_is_refused_until_others_have_ended() -> None:
    lab = running(2, bounded(command_open=6))  # each command takes 3: itself and two messages
    first, second = tell(lab), tell(lab)
    assert not first.error and not second.error
    refused = tell(lab)
    assert refused.error == "too_many_open"
    assert "namespace default take 6 kB, of 6 allowed (scheduler.command_open)" in refused.message
    assert len(lab.core.state.commands) == 2, "a command that is refused leaves nothing behind"
    answer(lab, first.data["commandID"])
    assert not tell(lab).error
    assert tell(lab).error == "too_many_open"


def test_plans_are_refused_like_commands_and_count_for_nothing() -> None:
    lab = running(2, bounded(command_open=4))
    assert not tell(lab, dry_run=True).error
    assert lab.core.turn_context.open_commands.total == 0
    tell(lab)
    assert not tell(lab, dry_run=True).error
    assert lab.core.turn_context.open_commands.total == 3
    tell(lab)
    assert tell(lab, dry_run=True).error == "too_many_open"


def test_limits_in_place_are_commands() -> None:
    lab = running(2, bounded(command_open=1), containers=containers(100))
    tell(lab)
    before = lab.application
    assert change(lab, 2, containers=containers(200)).error == "too_many_open"
    assert lab.application == before, "what was written before the refusal is undone"
    assert len(lab.core.state.versions_of(before.key)) == 1


def test_one_command_is_never_refused_for_its_size() -> None:
    lab = running(5, bounded(command_open=1, command_open_total=1))
    assert not tell(lab, body={"signal": 1, "words": "x" * 5000}).error
    assert lab.core.turn_context.open_commands.total == 11
    assert tell(lab).error == "too_many_open"


def test_all_namespaces_together_are_bounded() -> None:
    lab = running(2, bounded(command_open=100, command_open_total=3))
    tell(lab)
    other = msgspec.structs.replace(version(1), namespace="other")
    lab.ask(requests.CreateApplication(version=other))
    lab.offer()
    signal = requests.CreateCommand(
        namespace="other", name="web", type="signal", body={"signal": 1}, timeout=60.0, reserve=1.0
    )
    refused = lab.ask(signal)
    assert refused.error == "too_many_open" and "scheduler.command_open_total" in refused.message
    assert not lab.core.turn_context.open_commands.of("other")


def test_deleting_an_open_command_makes_room() -> None:
    lab = running(2, bounded(command_open=3))
    first = tell(lab)
    assert tell(lab).error == "too_many_open"
    lab.ask(requests.DeleteCommand(id=first.data["commandID"]))
    lab.turn()
    assert not tell(lab).error


def test_a_deadline_makes_room() -> None:
    lab = running(2, bounded(command_open=3))
    tell(lab, timeout=10.0)
    assert tell(lab).error == "too_many_open"
    lab.now += 10.0 + lab.core.options.answer_timeout + 1.0
    lab.turn()
    assert not tell(lab).error


def test_commands_count_from_the_moment_when_they_are_accepted() -> None:
    """Many may come in one turn, before a message of any of them is written."""
    lab = running(2, bounded(command_open=6))
    asked = [
        requests.CreateCommand(
            namespace="default",
            name="web",
            type="signal",
            body={"signal": 1},
            timeout=60.0,
            reserve=YEAR,
            token=number,
        )
        for number in range(900, 905)
    ]
    lab.turn(*asked)
    replies = {reply.token: reply.error for reply in lab.sent(effects.Reply) if reply.token >= 900}
    assert sorted(replies.values()) == ["", "", "too_many_open", "too_many_open", "too_many_open"]


def test_a_new_leader_counts_what_it_finds() -> None:
    lab = running(3)
    tell(lab)
    second = tell(lab)
    answer(lab, second.data["commandID"], 3000)
    records = [*lab.core.state.records(), *ended(1, at=lab.now)]
    assert Lab(records=records, now=lab.now).core.turn_context.open_commands.total == 4
    assert lab.core.turn_context.open_commands.total == 4


@pytest.mark.parametrize("seed", range(5))
def test_the_sums_are_those_of_the_records(seed: int) -> None:
    random = Random(seed)
    lab = running(4, bounded(command_open=30))
    commands: list[str] = []
    refused = 0
    for _ in range(80):
        match random.randrange(4):
            case 0 | 1:
                reply = tell(lab, body={"signal": 1, "words": "x" * random.randrange(3000)})
                refused += reply.error == "too_many_open"
                commands += [] if reply.error else [reply.data["commandID"]]
            case 2 if commands:
                answer(lab, random.choice(commands), random.choice([0, 2500]))
            case 3 if commands:
                lab.ask(requests.DeleteCommand(id=commands.pop(random.randrange(len(commands)))))
        lab.turn()
        assert lab.core.turn_context.open_commands.total == counted(lab.core.state)
        assert lab.core.turn_context.open_commands.of("default") == counted(lab.core.state, namespace="default")
    assert refused and len(commands) > 5
    for identity in commands:
        answer(lab, identity)
    assert lab.core.turn_context.open_commands.total == 0


def test_what_was_undone_does_not_count() -> None:
    sums = Lab().core.turn_context.open_commands
    command = Command(
        id="c", type="signal", namespace="n", application="a", targets=1, created_at=1.0, deadline=2.0, keep_until=2.0
    )
    message = Message(id="m", command="c", taskgroup="t", status="staging", created_at=1.0)
    sums._command_changed("c", None, command)
    sums.begin("c", 1)
    assert sums.total == 2
    sums._message_changed("m", None, message)
    assert sums.total == 2
    sums._message_changed("m", message, None)
    sums.written("c")
    assert sums.total == 0 == sums.of("n")
    sums._command_changed("c", command, None)
    assert sums.total == 0
