"""What no store can take is refused by the core: the request fails, the state is as before, the turn goes on."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core import event_log
from bcs_scheduler.core.controllers.cluster import message_sender
from bcs_scheduler.core.interface import cluster_manager, effects, inputs, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.rollout.steps import VICTIM_BYTES
from store.encoding.codec import encode_changes, size_of
from store.encoding.sizes import Sizer
from store.records import ConfigItem, ConfigMap, MessageResult, Record
from store.state import State
from store.state.unit_of_work import Unit, UnitOfWork
from tests.unit.lab import START, Lab, version
from tests.unit.rollinglab import RollingLab, wish
from transactions.rules.rolling import phase_transactions


class Checked(Lab):
    """Every unit is small enough for the store, whose limit may be set."""

    limit = 700_000
    units: list[Unit]

    def turn(self, *batch: inputs.Input) -> list[effects.Effect]:
        self.core.turn_context.uow.sizer = Sizer(self.limit)
        self.units = list(self.core.turn(batch, self.now))
        for unit in self.units:
            assert sum(map(size_of, encode_changes(unit.changes, 10**9))) <= self.limit
        self.out = [effect for unit in self.units for effect in unit.effects]  # type: ignore[misc]
        return self.out


def tables(state: State) -> dict[str, Any]:
    return {name: dict(table) for name, table in vars(state).items() if isinstance(table, dict)}


def configmap(size: int, name: str = "big") -> ConfigMap:
    """Of `size` bytes in the store, of which each character takes six."""
    return ConfigMap(namespace="default", name=name, items={"content": ConfigItem(content="\x01" * (size // 6))})


def test_a_request_that_no_store_can_take_is_refused_and_changes_nothing() -> None:
    lab = Checked()
    lab.limit = 200_000
    before = tables(lab.core.state)
    reply = lab.ask(requests.PutConfigMap(config_map=configmap(240_000)))
    assert reply.error == effects.Reason.INVALID
    assert re.fullmatch(r"configmap default/big has 240\d{3} bytes, the store takes at most \d{6}", reply.message)
    assert tables(lab.core.state) == before
    assert not any(unit.changes for unit in lab.units)
    assert lab.ask(requests.PutConfigMap(config_map=configmap(150_000))).error == ""


def test_a_request_with_contents_that_have_no_encoding_is_refused() -> None:
    lab = Checked()
    reply = lab.create(1, raw="half \ud800 of a pair")
    assert reply.error == effects.Reason.INVALID and re.match(
        r"version default/web/\d+ cannot be stored", reply.message
    )
    assert not lab.core.state.applications and not lab.core.state.transactions


def test_requests_of_one_turn_are_not_stored_together() -> None:
    lab = Checked()
    lab.turn(*(requests.PutConfigMap(config_map=configmap(230_000, f"c{n}"), token=n) for n in range(1, 5)))
    assert [reply.error for reply in lab.sent(effects.Reply)] == [""] * 4
    assert len(lab.core.state.config_maps) == 4


def test_a_dry_run_says_that_it_could_not_be_stored() -> None:
    lab = Checked()
    lab.limit = 30_000
    lab.offer()
    large = version(1, raw="x" * 40_000)
    assert lab.ask(requests.CreateApplication(version=large, dry_run=True)).error == effects.Reason.INVALID
    assert lab.ask(requests.CreateApplication(version=large)).error == effects.Reason.INVALID
    assert not lab.core.state.applications


def test_a_deployment_whose_records_do_not_fit_together_is_refused() -> None:
    lab = RollingLab()
    lab.core.turn_context.uow.sizer = Sizer(300_000)
    wanted = msgspec.structs.replace(wish(2), raw="x" * 100_000, annotations={"notes": "y" * 90_000})
    reply = lab.ask(requests.CreateDeployment(deployment=wanted, version=version(2, annotations=wanted.annotations)))
    assert reply.error == effects.Reason.INVALID and "bytes together" in reply.message
    assert not lab.core.state.deployments and not lab.core.state.revisions and not lab.core.state.applications


def test_a_command_over_a_hundred_taskgroups_with_large_output_fits_unit_by_unit() -> None:
    lab = Checked()
    lab.create(100)
    for number in range(8):
        lab.offer(f"agent-{number}")
    lab.run()
    reply = lab.ask(
        requests.CreateCommand(
            owner="application", namespace="default", name="web", type="command", timeout=10.0, reserve=100.0,
            body={"command": ["cat", "x" * 290_000]},
        )
    )  # fmt: skip
    assert reply.error == ""
    messages = list(lab.core.state.messages.values())
    assert len(messages) == 100
    noise = "\x01" * 200_000
    answers = [
        cluster_manager.MessageAnswered(
            agent_id="agent",
            message_id=message.id,
            executor_id=message.taskgroup,
            status="success",
            results=tuple(MessageResult(task=task, ok=True, stdout=noise, stderr=noise) for task in message.tasks),
        )
        for message in messages
    ]
    lab.turn(*answers)
    done = list(lab.core.state.messages.values())
    assert {message.status for message in done} == {"success"}
    assert all(result.truncated and result.stdout for message in done for result in message.results)
    assert max(len(msgspec.json.encode(m)) for m in done) <= message_sender.RESULT_BYTES + 5_000


def test_what_a_controller_cannot_store_is_undone_and_told_and_the_turn_goes_on() -> None:
    """Also where errors are let out: a size is no error of the program."""
    lab = Checked()
    turn = lab.core.turn_context
    records: list[Record] = [configmap(300_000, f"c{n}") for n in range(3)]

    def work() -> None:
        for record in records:
            turn.uow.put(record)

    failure = turn.attempt("core", "test", work)
    assert failure is not None and failure.code == "not_storable"
    assert failure.words.startswith("BatchTooLarge: 3 changes have 900") and not lab.core.state.config_maps
    work()
    turn.cut()
    assert not lab.core.state.config_maps, "outside of an attempt a unit is undone as well"
    told = [line for line in turn.uow.effects if isinstance(line, effects.LogLine)]
    assert [(line.kind, line.reason, line.level) for line in told] == [("core", "InternalError", "error")]
    assert lab.ask(requests.PutConfigMap(config_map=configmap(10))).error == ""


def test_big_pieces_of_work_are_closed_by_their_bytes() -> None:
    lab = Checked()
    turn = lab.core.turn_context

    def work() -> None:
        for number in range(12):
            turn.uow.put(configmap(100_000, f"c{number}"))
            turn.checkpoint()

    assert turn.attempt("core", "test", work) is None
    turn.cut()
    assert len(turn.units) == 12 and len(lab.core.state.config_maps) == 12


def test_a_piece_of_work_that_is_too_large_fails_the_work_at_its_checkpoint() -> None:
    lab = Checked()
    turn = lab.core.turn_context
    passed: list[int] = []

    def work() -> None:
        for number in range(3):
            turn.uow.put(configmap(100 if number == 0 else 800_000, f"c{number}"))
            turn.checkpoint()
            passed.append(number)

    failure = turn.attempt("core", "test", work)
    assert failure is not None and "configmap default/c1 has 800" in failure.words
    assert passed == [0] and not lab.core.state.config_maps


def test_a_step_of_an_update_names_no_more_victims_than_a_record_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bcs_scheduler.core.rollout.steps.VICTIM_BYTES", 300)
    assert Sizer().limit > VICTIM_BYTES * 2
    lab = RollingLab(CoreOptions(strict=True))
    lab.offer()
    unavailable = msgspec.structs.replace(wish(12).strategy, max_unavailable=12, max_surge=0, order="DeleteFirst")
    wanted = msgspec.structs.replace(wish(12), strategy=unavailable)
    lab.ask(requests.CreateDeployment(deployment=wanted, version=version(12)))
    lab.run()
    lab.ask(requests.UpdateDeployment(deployment=wanted, version=version(12, labels={"revision": "2"})))
    lab.run()
    for _ in range(4):  # taskgroups that would share an agent wait for further offers
        lab.wait(1.0)
        lab.run()
    scales = [each.victims for each in phase_transactions(lab.core.state.transactions.values()) if each.victims]
    assert len(scales) > 1 and all(sum(map(len, victims)) <= 300 for victims in scales)
    assert lab.deployment.status == "Running" and {g.application for g in lab.groups} == {lab.application.name}


def test_the_event_log_never_takes_more_of_a_unit_than_it_says() -> None:
    state = State()
    uow, recorder = UnitOfWork(state, Sizer(10**9)), event_log.EventRecorder(state)
    texts = ["", "short", "x" * 600, "ä" * 600, "\x01" * 600, "half \ud800 of a pair"]
    for round in range(40):
        for number in range(round):
            uow.effect(
                effects.LogLine(
                    kind="application", key=f"ns/{texts[number % 3][:60]}", reason="ApplicationRunning",
                    message=texts[(round + number) % 6], cause=f"api-{number}",
                )
            )  # fmt: skip
        bound = recorder.bound(uow.effects)
        recorder.write(uow, START)
        assert uow.size() <= bound
        unit = uow.cut()
        for change in unit.changes if unit is not None else ():
            if change.record is not None:
                assert 0 <= change.bound - len(encode_changes([change], 10**9)[0].data or b"") <= event_log.RUN_OVERHEAD
