"""Endpoints follow services and taskgroups: one record per service and turn, only where it differs."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.controllers import roster, services
from bcs_scheduler.core.controllers.roster import Roster
from bcs_scheduler.core.interface import cluster_manager, effects, inputs, requests
from bcs_scheduler.core.options import CoreOptions
from store.records import Application, Endpoint, Member, Record, Service, ServicePort, TaskGroup, Version
from store.records.definition import Amounts, Container, Port
from store.state.unit_of_work import Unit
from tests.unit.lab import START, Lab
from transactions.rules import membership
from transactions.rules.task_states import TaskState

WEB = ServicePort(name="http", service_port=80)


def service(name: str = "front", selector: dict[str, str] | None = None, **fields: Any) -> Service:
    return Service(
        namespace="default",
        name=name,
        **{"ports": (WEB,), **fields},
        selector={"app": "web"} if selector is None else selector,
    )


def put(lab: Lab, record: Service | None = None, create: bool | None = None) -> effects.Reply:
    return lab.ask(requests.PutService(service=record or service(), create=create))


def launch(lab: Lab, name: str = "web", instances: int = 2, labels: dict[str, str] | None = None) -> None:
    container = Container(
        command="serve", requests=Amounts(cpus=100, mem=32_000), ports=(Port(name="http"), Port(name="admin"))
    )
    version = Version(
        namespace="default",
        application=name,
        instances=instances,
        labels={"app": "web"} if labels is None else labels,
        network_mode="HOST",
        containers=(container,),
    )
    lab.offer()
    reply = lab.ask(requests.CreateApplication(version=version))
    assert not reply.error, reply.message


def groups(lab: Lab, name: str = "web") -> list[TaskGroup]:
    return sorted(lab.core.state.groups_of(f"default/{name}").values(), key=lambda group: group.index)


def serving(instances: int = 2) -> Lab:
    """A lab with a service whose application runs."""
    lab = Lab()
    lab.offer()
    put(lab)
    launch(lab, instances=instances)
    for group in groups(lab):
        lab.report(group, "RUNNING")
    assert [member.ready for member in endpoint(lab).members] == [True] * instances
    return lab


def endpoint(lab: Lab, name: str = "front") -> Endpoint:
    return lab.core.state.endpoints[f"default/{name}"]


def written(lab: Lab) -> list[effects.Changed]:
    return [changed for changed in lab.sent(effects.Changed) if changed.kind == "endpoint"]


def test_a_service_has_an_endpoint_at_once() -> None:
    lab = Lab()
    assert put(lab).data == {"namespace": "default", "name": "front"}
    assert endpoint(lab).members == ()
    assert endpoint(lab).version == int(lab.now * 1e9)
    assert [changed.record for changed in written(lab)] == [endpoint(lab)]


def test_members_have_the_ports_the_service_names() -> None:
    lab = serving(1)
    (group,) = groups(lab)
    (member,) = endpoint(lab).members
    port = next(port for port in group.tasks[0].ports if port.name == "http")
    assert (member.taskgroup, member.name, member.network_mode) == (group.id, "web-0", "HOST")
    assert [(p.name, p.address) for p in member.ports] == [("http", f"10.0.0.1:{port.host_port}")]


def test_what_changes_in_a_turn_is_written_once() -> None:
    lab = Lab()
    lab.offer()
    put(lab)
    put(lab, service("other", {"app": "other"}))
    launch(lab, instances=5)
    assert not written(lab)
    batch = [
        cluster_manager.StatusUpdate(
            task_id=group.tasks[0].id, state=TaskState.RUNNING, agent_id=group.agent_id, uuid=b"u"
        )
        for group in groups(lab)
    ]
    units = lab.core.turn(batch, lab.now)
    changes = [change.key for unit in units for change in unit.changes if change.kind == "endpoint"]
    assert changes == ["default/front"]
    assert [member.name for member in endpoint(lab).members] == [f"web-{index}" for index in range(5)]


def test_a_report_that_changes_no_member_writes_nothing() -> None:
    lab = serving()
    lab.report(groups(lab)[0], "RUNNING", message="still here")
    assert groups(lab)[0].tasks[0].message == "still here"
    assert not written(lab)


def test_ending_is_told_before_the_kill_and_stays_until_it_has_ended() -> None:
    lab = serving()
    version = endpoint(lab).version
    lab.ask(requests.ScaleApplication(namespace="default", name="web", instances=1))
    assert [(m.name, m.ready, m.reason) for m in endpoint(lab).members] == [
        ("web-0", True, ""),
        ("web-1", False, "ending"),
    ]
    assert endpoint(lab).version > version
    assert lab.ended()
    lab.report(groups(lab)[1], "KILLING")
    assert not written(lab)
    lab.report(groups(lab)[1], "KILLED")
    assert [m.name for m in endpoint(lab).members] == ["web-0"]


def test_unreachable_stays_and_comes_back() -> None:
    lab = serving(1)
    lab.report(groups(lab)[0], "UNREACHABLE")
    assert [(m.ready, m.reason) for m in endpoint(lab).members] == [(False, "unreachable")]
    lab.report(groups(lab)[0], "RUNNING")
    assert [m.ready for m in endpoint(lab).members] == [True]


def test_a_changed_service_is_matched_anew() -> None:
    lab = serving(1)
    launch(lab, "api", 1, {"app": "api"})
    lab.report(groups(lab, "api")[0], "RUNNING")
    put(lab, service(selector={"app": "api"}))
    assert [m.name for m in endpoint(lab).members] == ["api-0"]
    put(lab, service(selector={}))
    assert [m.name for m in endpoint(lab).members] == ["api-0", "web-0"]
    put(lab, service(selector={"app": "web", "tier": "none"}))
    assert endpoint(lab).members == ()


def test_weights_follow_labels_and_the_deployment() -> None:
    lab = serving(1)
    put(lab, service(labels={"BCS-WEIGHT-shop": "7"}))
    assert [m.weight for m in endpoint(lab).members] == [1]
    application = lab.core.state.applications["default/web"]
    lab.core.turn_context.uow.put(msgspec.structs.replace(application, deployment="shop"))
    lab.turn()
    assert [m.weight for m in endpoint(lab).members] == [7]


def test_the_endpoint_has_the_labels_of_its_service() -> None:
    lab = serving(1)
    put(lab, service(labels={"BCSGROUP": "external"}, annotations={"owner": "shop"}))
    assert (endpoint(lab).labels, endpoint(lab).annotations) == ({"BCSGROUP": "external"}, {"owner": "shop"})
    assert len(endpoint(lab).members) == 1


def test_nothing_written_by_a_put_that_changes_nothing() -> None:
    lab = serving(1)
    put(lab)
    assert not lab.sent(effects.Changed)


def test_refusals() -> None:
    lab = serving(1)
    assert put(lab, create=True).error == "exists"
    assert put(lab, service("missing"), create=False).error == "not_found"
    assert lab.ask(requests.DeleteService(namespace="default", name="missing")).error == "not_found"
    large = service("large", annotations={"text": "x" * roster.ENDPOINT_BYTES})
    assert put(lab, large).error == "invalid"


def test_a_plan_changes_nothing() -> None:
    lab = serving(1)
    before = lab.records()
    assert lab.ask(requests.PutService(service=service(selector={}), dry_run=True)).data["dryRun"]
    assert lab.ask(requests.DeleteService(namespace="default", name="front", dry_run=True)).data["dryRun"]
    assert not lab.sent(effects.Changed)
    assert lab.records() == before


def test_the_endpoint_goes_with_the_service() -> None:
    lab = serving(1)
    lab.ask(requests.DeleteService(namespace="default", name="front"))
    assert not lab.core.state.endpoints
    assert [(c.kind, c.record) for c in lab.sent(effects.Changed)] == [("service", None), ("endpoint", None)]
    put(lab)
    assert [m.name for m in endpoint(lab).members] == ["web-0"]


def test_who_takes_over_writes_only_what_differs() -> None:
    lab = serving()
    version = endpoint(lab).version
    assert not written(lab.succeed())
    stale = msgspec.structs.replace(endpoint(lab), members=())
    orphan = Endpoint(namespace="default", name="gone", version=1)
    successor = Lab(records=[r for r in lab.records() if r.kind != "endpoint"] + [stale, orphan])
    assert [m.ready for m in endpoint(successor).members] == [True, True]
    assert endpoint(successor).version > version
    assert list(successor.core.state.endpoints) == ["default/front"]


def test_versions_grow_when_the_clock_goes_back() -> None:
    lab = serving(1)
    version = endpoint(lab).version
    lab.now -= 3600
    lab.report(groups(lab)[0], "UNREACHABLE")
    assert endpoint(lab).version == version + 1


def test_one_that_cannot_be_written_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(CoreOptions())
    fitting = Roster.fitting
    monkeypatch.setattr(Roster, "fitting", lambda members: 1 / 0 if len(members) else fitting(members))
    lab.offer()
    put(lab)
    launch(lab, instances=1)
    lab.report(groups(lab)[0], "RUNNING")
    assert [(s.key, s.level) for s in lab.sent(effects.LogLine) if s.reason == "InternalError"] == [
        ("default/front", "error")
    ]
    put(lab, service("other", {"app": "none"}))
    assert endpoint(lab, "other").members == ()
    assert endpoint(lab).members == ()
    monkeypatch.undo()
    lab.wait(services.AGAIN + 1)
    assert [m.name for m in endpoint(lab).members] == ["web-0"]


def test_tells_when_nobody_is_ready() -> None:
    lab = serving(1)
    lab.report(groups(lab)[0], "UNREACHABLE")
    told = [line for line in lab.sent(effects.LogLine) if line.kind == "service"]
    assert [(line.reason, line.level) for line in told] == [("ServiceUnavailable", "warning")]


def crowd(instances: int, waiting: int = 0) -> Lab:
    """A lab with a service of many members, whose endpoint has just been written; `waiting` of them do not run yet."""
    lab = Lab()
    for number in range(3):
        lab.offer(f"agent-{number}", cpus=60_000, ports=(31000, 32999))
    put(lab)
    launch(lab, instances=instances)
    lab.turn(*[report(group, "RUNNING") for group in groups(lab)[waiting:]])
    assert len(endpoint(lab).members) == instances - waiting
    return lab


def report(group: TaskGroup, state: str) -> cluster_manager.StatusUpdate:
    return cluster_manager.StatusUpdate(
        task_id=group.tasks[0].id, state=TaskState(state), agent_id=group.agent_id, uuid=b"u"
    )


def untold(lab: Lab, *batch: inputs.Input) -> list[str]:
    """Taskgroups whose kill may leave in this turn while followers of the service still hold them for ready. Units
    leave as they are handed over, in the middle of a turn too; what is handed over together leaves news first."""
    owner = {task.id: group.id for group in lab.core.state.taskgroups.values() for task in group.tasks}
    ready = {member.taskgroup for member in endpoint(lab).members if member.ready}
    killed, early = 0, []
    for part in [lab.core.turn(batch, lab.now)]:
        lab.out = [effect for unit in part for effect in unit.effects]  # type: ignore[misc]
        for change in written(lab):
            members = change.record.members if isinstance(change.record, Endpoint) else ()
            ready = {member.taskgroup for member in members if member.ready}
        kills = [owner[task] for task in lab.ended()]
        early += [group for group in kills if group in ready]
        killed += len(kills)
    assert killed
    return early


def test_big_endpoints_are_paced() -> None:
    lab = crowd(1000, waiting=1)
    lab.report(groups(lab)[0], "RUNNING")
    assert len(endpoint(lab).members) == 999
    due = lab.core.next_wakeup(lab.now)
    assert lab.now < due <= lab.now + 999 * services.PACE
    lab.now = due
    lab.turn()
    assert len(endpoint(lab).members) == 1000


def test_what_is_to_end_is_told_before_the_kill_whatever_the_size() -> None:
    lab = crowd(150)
    assert lab.core.next_wakeup(lab.now) > lab.now
    assert not untold(lab, requests.ScaleApplication(namespace="default", name="web", instances=140, token=1))
    assert [m.reason for m in endpoint(lab).members] == [""] * 140 + ["ending"] * 10
    lab.turn(*[report(group, "KILLED") for group in groups(lab)[140:]])
    assert len(endpoint(lab).members) == 150
    lab.wait(1.0)
    assert len(endpoint(lab).members) == 140
    lab.turn(report(groups(lab)[0], "UNREACHABLE"))
    assert not untold(lab, requests.RescheduleTaskGroup(taskgroup=groups(lab)[7].id, token=2))


def test_what_is_to_end_is_told_before_others_are_placed() -> None:
    """Placing hands over what was decided before, kills among it."""
    lab = serving(4)
    lab.offer()
    create = requests.CreateApplication(
        version=Version(namespace="default", application="other", instances=1, containers=(Container(command="serve"),))
    )
    assert not untold(lab, requests.ScaleApplication(namespace="default", name="web", instances=2, token=1), create)
    assert lab.sent(cluster_manager.LaunchOnAgent)


def test_a_service_that_changes_or_goes_as_its_members_do_is_told_at_once() -> None:
    delete = requests.DeleteApplication(namespace="default", name="web", token=1)
    for record in (service(labels={"new": "label"}), service(selector={"app": "none"}), service(selector={})):
        lab = crowd(150)
        assert not untold(lab, requests.PutService(service=record, token=2), delete)
        assert not any(member.ready for member in endpoint(lab).members)
    lab = crowd(150)
    assert not untold(lab, requests.DeleteService(namespace="default", name="front", token=2), delete)
    assert not lab.core.state.endpoints


def test_what_is_forgotten_is_told_at_once() -> None:
    lab = crowd(150)
    assert not untold(lab, requests.DeleteApplication(namespace="default", name="web", enforce=True, token=1))
    assert not any(member.ready for member in endpoint(lab).members)


def test_members_without_room_are_left_out_the_unready_first() -> None:
    def one(index: int, *, ready: bool) -> Member:
        return Member(taskgroup=f"{index}.web.default.demo.1", name=f"web-{index}", application="web", ready=ready)

    each = roster.size(one(1000, ready=True))
    many = tuple(one(1000 + index, ready=index % 2 == 1) for index in range(roster.ENDPOINT_BYTES // each * 3 // 2))
    members = Roster()
    for member in reversed(many):
        members.set(member.taskgroup, msgspec.structs.replace(member, ready=not member.ready))
        members.set(member.taskgroup, member)
    kept, omitted = members.fitting()
    assert len(kept) + omitted == len(many)
    assert 0 < omitted < len(many) / 2
    assert kept == tuple(m for m in many if m in kept)
    assert all(member in kept for member in many if member.ready)
    assert len(msgspec.json.encode(kept)) <= roster.ENDPOINT_BYTES


def test_long_history_equals_a_fresh_look() -> None:
    """Whatever happens, each endpoint is what a walk over all taskgroups finds."""
    for seed in range(30):
        dice = random.Random(seed)
        lab = Lab()
        for _ in range(60):
            lab.now += 1
            _happen(lab, dice)
            for key, record in lab.core.state.services.items():
                assert lab.core.state.endpoints[key].members == _walk(lab, record), (seed, key)
            assert set(lab.core.state.endpoints) == set(lab.core.state.services)
        lab = lab.succeed()
        assert not written(lab)


@pytest.mark.slow
def test_a_crash_between_any_two_units_leaves_nothing_behind() -> None:
    """Of a turn only some of the units become durable; who takes over puts the endpoints right."""
    for seed in range(20):
        dice = random.Random(seed)
        stored: dict[tuple[str, str], Record] = {}
        for _ in range(12):
            lab = Lab(records=stored.values())
            lab.now = START + seed * 1000 + len(stored)
            lab.turn()
            for key, record in lab.core.state.services.items():
                assert lab.core.state.endpoints[key].members == _walk(lab, record), (seed, key)
            assert set(lab.core.state.endpoints) == set(lab.core.state.services)
            _durable(stored, lab, dice)


def _durable(stored: dict[tuple[str, str], Record], lab: Lab, dice: random.Random) -> None:
    """Lets things happen, and the process end in the middle of a turn."""
    stored.clear()
    stored.update({(record.kind, record.key): record for record in lab.records()})
    turn, units = lab.core.turn, list[Unit]()

    def watched(batch: Iterable[inputs.Input], now: float) -> list[Unit]:
        made = turn(batch, now)
        units.extend(made)
        return made

    lab.core.turn = watched  # type: ignore[method-assign, assignment]
    for _ in range(8):
        lab.now += 1
        _happen(lab, dice)
    for unit in units[: dice.randint(0, len(units))]:
        for change in unit.changes:
            if change.record is None:
                stored.pop((change.kind, change.key), None)
            else:
                stored[change.kind, change.key] = change.record


def _happen(lab: Lab, dice: random.Random) -> None:
    labels = {key: dice.choice("xy") for key in dice.sample(["a", "b", "c"], dice.randint(0, 2))}
    name = f"app{dice.randint(0, 3)}"
    everything = list(lab.core.state.taskgroups.values())
    match dice.randint(0, 6):
        case 0:
            record = service(f"s{dice.randint(0, 3)}", labels, labels={f"BCS-WEIGHT-app{dice.randint(0, 3)}": "3"})
            put(lab, record)
        case 1:
            lab.ask(requests.DeleteService(namespace="default", name=f"s{dice.randint(0, 3)}"))
        case 2 if f"default/{name}" not in lab.core.state.applications:
            lab.offer()
            launch(lab, name, dice.randint(1, 4), labels)
        case 3:
            lab.ask(requests.DeleteApplication(namespace="default", name=name))
        case 4:
            lab.ask(requests.ScaleApplication(namespace="default", name=name, instances=dice.randint(1, 5)))
        case _ if everything:
            state = dice.choice(["RUNNING", "RUNNING", "KILLED", "UNREACHABLE", "FAILED"])
            lab.report(dice.choice(everything), state)
            lab.offer()


def _walk(lab: Lab, record: Service) -> tuple[Member, ...]:
    state = lab.core.state
    found = []
    for group in state.taskgroups.values():
        key = f"{group.namespace}/{group.application}"
        version, application = state.version(key, group.version), state.applications.get(key)
        assert version is not None and isinstance(application, Application)
        if all(version.labels.get(k) == v for k, v in record.selector.items()):
            names = {port.name for port in record.ports}
            found.append(membership.member(group, version, application, names, membership.weights(record)))
    return tuple(
        sorted((m for m in found if m), key=lambda m: (m.application, int(m.name.rpartition("-")[2]), m.taskgroup))
    )
