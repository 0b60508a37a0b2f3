"""Messages to executors: who gets one, how it is delivered, and how each comes to its last word."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.api.views.messages import show_command
from bcs_scheduler.core.controllers.cluster.message_sender import BURST, OUTPUT_LIMIT, RESEND, MessageSender
from bcs_scheduler.core.interface import cluster_manager, effects, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.requests.kinds.commands import COMMAND_BYTES
from store.records import Message, MessageResult
from store.records.definition import Amounts, Container
from tests.unit.lab import Lab, running

REQUESTS = Amounts(cpus=100, mem=32_000)


def send_command(lab: Lab, kind: Any = "signal", **fields: Any) -> effects.Reply:
    asked = {"body": {"signal": 1}, "timeout": 30.0, **fields}
    return lab.ask(requests.CreateCommand(namespace="default", name="web", type=kind, **asked))


def message(lab: Lab, taskgroup: str = "") -> Message:
    (found,) = [m for m in lab.core.state.messages.values() if taskgroup in ("", m.taskgroup)]
    return found


def answer(lab: Lab, status: Any = "success", **fields: Any) -> cluster_manager.MessageAnswered:
    """From the executor of the only message, about all of its tasks."""
    asked = message(lab)
    result = {"agent_id": "agent-1", "executor_id": asked.taskgroup, "message_id": asked.id, **fields}
    return cluster_manager.MessageAnswered(status=status, **result)


# --- who gets one -----------------------------------------------------------------------------------------------------


def test_every_taskgroup_gets_one_message_with_its_tasks() -> None:
    lab = running(2, tasks=2)
    reply = send_command(lab)
    sent = lab.sent(cluster_manager.SendMessage)
    assert [(m.executor_id, m.type, m.body, m.timeout) for m in sent] == [
        (group.id, "signal", {"signal": 1}, 30.0) for group in lab.groups
    ]
    assert [m.tasks for m in sent] == [tuple(task.id for task in group.tasks) for group in lab.groups]
    command = lab.core.state.commands[reply.data["commandID"]]
    assert command.id.startswith("Application-default-web-")
    assert command.deadline == lab.now + 30 + lab.options.answer_timeout
    assert reply.data["messages"] == [
        {"taskgroup": m.executor_id, "messageID": m.message_id, "status": "staging", "message": ""} for m in sent
    ]


def test_only_the_named_taskgroups_and_only_tasks_of_the_image() -> None:
    containers = (
        Container(image="demo/front:1", requests=REQUESTS),
        Container(image="demo/back:1", requests=REQUESTS),
    )
    lab = running(2, containers=containers)
    send_command(lab, taskgroups=(lab.group(1).id,), image="back")
    (sent,) = lab.sent(cluster_manager.SendMessage)
    assert sent.tasks == (lab.group(1).tasks[1].id,)
    reply = send_command(lab, image="side")
    assert [m["status"] for m in reply.data["messages"]] == ["failed", "failed"]
    assert "'side'" in reply.data["messages"][0]["message"]


def test_what_cannot_be_told_fails_at_once_with_the_reason() -> None:
    lab = running(2)
    lab.report(lab.group(1), "UNREACHABLE")
    reply = send_command(lab)
    assert [(m["status"], m["message"]) for m in reply.data["messages"]] == [
        ("staging", ""),
        ("failed", "the taskgroup is Lost, not Running"),
    ]
    mesos = running(1, CoreOptions(strict=True, executor="mesos"))
    reply = send_command(mesos)
    words = "it is run by the executor of the cluster manager, which takes no messages"
    assert reply.data["messages"][0]["message"] == words
    assert not mesos.sent(cluster_manager.SendMessage)


def test_a_stranger_or_nobody_at_all_is_refused() -> None:
    lab = running(1)
    reply = send_command(lab, taskgroups=("0.other.default.c.1", lab.group().id))
    assert reply.error == "not_found" and "0.other.default.c.1" in reply.message
    assert lab.ask(requests.CreateCommand(namespace="default", name="x", type="signal")).error == "not_found"
    assert not lab.core.state.commands
    empty = Lab()
    empty.create(1)
    assert send_command(empty).error == "conflict"


@pytest.mark.parametrize("kind", ["restart", "reload"])
def test_no_restart_while_an_operation_is_at_work(kind: str) -> None:
    lab = running(2)
    lab.offer(cpus=10)
    lab.update(2, containers=(Container(command="other", requests=REQUESTS),))
    assert send_command(lab, kind).error == "conflict"
    assert not send_command(lab, "signal").error


def test_a_body_no_store_could_hold_is_refused() -> None:
    lab = running(1)
    assert send_command(lab, "local", body={"data": "x" * COMMAND_BYTES}).error == "invalid"
    assert not lab.core.state.commands


def test_a_plan_sends_nothing_even_in_small_units() -> None:
    lab = running(3, CoreOptions(strict=True, unit_changes=1))
    reply = send_command(lab, dry_run=True)
    assert [m["status"] for m in reply.data["messages"]] == ["staging"] * 3
    lab.wait(2)
    assert not lab.sent(cluster_manager.SendMessage) and not lab.core.state.messages and not lab.core.state.commands


def test_what_a_crash_leaves_of_a_big_command_says_how_many_were_meant() -> None:
    lab = running(3, CoreOptions(strict=True, unit_changes=1))
    durable = {(record.kind, record.key): record for record in lab.records()}
    units = lab.core.turn([requests.CreateCommand(namespace="default", name="web", type="signal")], lab.now)
    for change in [each for unit in units for each in unit.changes if each.kind in ("command", "message")][:3]:
        assert change.record is not None
        durable[change.kind, change.key] = change.record
    successor = Lab(lab.options, durable.values())
    (left,) = successor.core.state.commands.values()
    assert show_command(successor.core.state, left).state == "running"
    for asked in list(successor.core.state.messages.values()):
        successor.turn(
            cluster_manager.MessageAnswered(
                agent_id="agent-1", executor_id=asked.taskgroup, message_id=asked.id, status="success"
            )
        )
    shown = show_command(successor.core.state, left)
    assert (shown.state, shown.targets, len(shown.status.taskgroups)) == ("failed", 3, 2)


# --- delivery ---------------------------------------------------------------------------------------------------------


def test_a_message_leaves_in_a_unit_after_its_record() -> None:
    lab = running(1)
    units = lab.core.turn([requests.CreateCommand(namespace="default", name="web", type="signal")], lab.now)
    written = next(n for n, unit in enumerate(units) if any(c.kind == "message" for c in unit.changes))
    left = next(
        n for n, unit in enumerate(units) if any(isinstance(e, cluster_manager.SendMessage) for e in unit.effects)
    )
    assert written < left


def test_it_is_sent_again_with_backoff_until_it_is_answered() -> None:
    lab = running(1)
    send_command(lab, timeout=600.0)
    began, times = lab.now, []
    while lab.now < began + 100:
        lab.wait(0.5)
        times += [lab.now - began] * len(lab.sent(cluster_manager.SendMessage))
    assert times == [5.0, 15.0, 35.0, 75.0]
    lab.turn(answer(lab))
    assert not [effect for effect in lab.wait(200) if isinstance(effect, cluster_manager.SendMessage)]


def test_it_is_sent_again_at_once_after_a_new_subscription() -> None:
    lab = running(1)
    send_command(lab)
    lab.turn(cluster_manager.Disconnected())
    assert not [effect for effect in lab.wait(20) if isinstance(effect, cluster_manager.SendMessage)]
    lab.turn(cluster_manager.Connected(framework_id="framework"))
    assert len(lab.sent(cluster_manager.SendMessage)) == 1


def test_it_waits_for_an_agent_that_is_away_and_is_sent_when_it_is_back() -> None:
    lab = running(1)
    send_command(lab)
    lab.report(lab.group(), "UNREACHABLE")
    assert not [effect for effect in lab.wait(20) if isinstance(effect, cluster_manager.SendMessage)]
    lab.report(lab.group(), "RUNNING")
    assert len(lab.sent(cluster_manager.SendMessage)) == 1


def test_it_is_sent_again_when_its_executor_is_heard_of_after_a_while() -> None:
    lab = running(1)
    send_command(lab, timeout=600.0)
    lab.wait(40)
    group = lab.group()
    lab.turn(cluster_manager.TasksReported(agent_id=group.agent_id, executor_id=group.id, tasks=()))
    assert len(lab.sent(cluster_manager.SendMessage)) == 1


def test_a_successor_goes_on_and_keeps_the_deadline() -> None:
    lab = running(1)
    send_command(lab)
    lab.wait(50)
    successor = lab.succeed()
    assert len(successor.sent(cluster_manager.SendMessage)) == 1
    successor.now = lab.now
    successor.wait(41)
    assert message(successor).message == "no answer from the executor within 1m30s"


def test_a_flood_leaves_in_parts() -> None:
    lab = Lab()
    for _ in range(8):
        lab.offer(f"agent-{_}", cpus=10_000_000, ports=(1, 2))
    lab.create(BURST + 100)
    lab.run()
    send_command(lab)
    first = len(lab.sent(cluster_manager.SendMessage))
    assert first == BURST
    assert lab.core.next_wakeup(lab.now) < lab.now + RESEND / 10
    assert len([effect for effect in lab.wait(1.0) if isinstance(effect, cluster_manager.SendMessage)]) == 100


def test_a_message_that_cannot_be_handled_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = running(3, CoreOptions(strict=False))
    honest, broken = MessageSender._send, lab.group(1).id

    def fragile(self: MessageSender, message: Message, command: Any) -> None:
        if message.taskgroup == broken:
            raise ValueError("broken")
        honest(self, message, command)

    monkeypatch.setattr(MessageSender, "_send", fragile)
    send_command(lab, timeout=600.0)
    assert [m.executor_id for m in lab.sent(cluster_manager.SendMessage)] == [lab.group(0).id, lab.group(2).id]
    monkeypatch.undo()
    lab.wait(70)
    assert broken in [m.executor_id for m in lab.sent(cluster_manager.SendMessage)]


# --- the last word ----------------------------------------------------------------------------------------------------


def test_the_answer_is_kept_and_counted() -> None:
    lab = running(1)
    send_command(lab, "command")
    lab.turn(answer(lab, "running"))
    assert message(lab).status == "running"
    assert lab.core.turn([answer(lab, "running", message="still")], lab.now) == []
    result = MessageResult(task=message(lab).tasks[0], ok=True, exit_code=3, stdout="hello")
    lab.turn(answer(lab, results=(result, MessageResult(task="stranger", ok=True))))
    assert (message(lab).status, message(lab).results, message(lab).completed_at) == ("success", (result,), lab.now)
    assert [seen.labels[2:] for seen in lab.sent(effects.Observed)] == [("command", "success")]


def test_the_first_last_word_counts() -> None:
    lab = running(1)
    send_command(lab)
    lab.turn(answer(lab, "success"))
    lab.turn(answer(lab, "failed"), answer(lab, "running"))
    assert message(lab).status == "success"


def test_only_its_executor_answers() -> None:
    lab = running(1)
    send_command(lab)
    lab.turn(answer(lab, executor_id="0.other.default.c.1"), answer(lab, message_id="1"))
    assert message(lab).status == "staging"


def test_output_is_cut_to_what_a_record_may_hold() -> None:
    lab = running(1, tasks=2)
    send_command(lab, "command")
    results = tuple(
        MessageResult(task=task, ok=True, stdout="o" * OUTPUT_LIMIT, stderr="e", message="m" * OUTPUT_LIMIT)
        for task in message(lab).tasks
    )
    lab.turn(answer(lab, results=results))
    kept = message(lab).results
    assert len(kept) == 2 and all(result.truncated for result in kept)
    assert sum(len(r.stdout) + len(r.stderr) + len(r.message) for r in kept) <= OUTPUT_LIMIT


def test_what_is_not_answered_in_time_has_failed() -> None:
    lab = running(1)
    send_command(lab)
    lab.wait(89)
    assert message(lab).open
    lab.wait(2)
    assert (message(lab).status, message(lab).message) == ("failed", "no answer from the executor within 1m30s")


def test_a_taskgroup_that_has_ended_answers_nothing_more() -> None:
    lab = running(1)
    send_command(lab)
    lab.report(lab.group(), "FAILED")
    assert (message(lab).status, message(lab).message) == ("failed", "the taskgroup has ended")


def test_nothing_is_left_open_if_the_application_is_deleted_by_force() -> None:
    lab = running(1)
    send_command(lab)
    lab.delete(enforce=True)
    assert not lab.core.state.applications
    assert message(lab).message == "the taskgroup has ended"


# --- forgetting -------------------------------------------------------------------------------------------------------


def test_a_command_is_forgotten_on_request_and_its_messages_with_it() -> None:
    lab = running(2, CoreOptions(strict=True, unit_changes=1))
    command = send_command(lab).data["commandID"]
    late = cluster_manager.MessageAnswered(
        agent_id="a", executor_id=lab.group().id, message_id=next(iter(lab.core.state.messages)), status="success"
    )
    assert lab.ask(requests.DeleteCommand(id=command)).data["commandID"] == command
    assert not lab.core.state.commands and not lab.core.state.messages
    lab.turn(late)
    assert not [effect for effect in lab.wait(20) if isinstance(effect, cluster_manager.SendMessage)]
    assert lab.ask(requests.DeleteCommand(id=command)).error == "not_found"


def test_commands_are_pruned_after_their_time() -> None:
    lab = running(1)
    send_command(lab, reserve=300.0)
    lab.wait(295)
    assert lab.core.state.commands
    lab.wait(40)
    assert not lab.core.state.commands and not lab.core.state.messages


def test_ids_are_never_used_again_after_a_failover() -> None:
    lab = running(1)
    send_command(lab)
    successor = lab.succeed()
    successor.now = lab.now
    send_command(successor)
    assert len(successor.core.state.messages) == 2
