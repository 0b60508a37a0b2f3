"""Deployments at rest: creation, adoption, ownership, revisions, deletion."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.controllers.garbage_collector import PERIOD
from bcs_scheduler.core.interface import effects, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.requests.kinds import deployment_checks
from store.encoding.sizes import SMALLEST_LIMIT
from store.records import Strategy, Transaction
from tests.unit.lab import Lab, version
from tests.unit.rollinglab import NEW, WEB, RollingLab, deployed, named, wish
from transactions.base import Context, Options, Step
from transactions.kinds import delete
from transactions.rules import rolling

# --- creation ---------------------------------------------------------------------------------------------------------


def test_a_deployment_launches_an_application_of_its_name() -> None:
    lab = RollingLab()
    lab.offer()
    reply = lab.deploy(3)
    assert (reply.data["name"], reply.data["revision"]) == ("web", 1)
    assert lab.core.state.transactions[reply.data["transactionID"]].type == "LAUNCH"
    lab.run()
    assert (lab.deployment.status, lab.deployment.application) == ("Running", "web")
    assert (lab.application.status, lab.application.deployment) == ("Running", "web")
    assert [revision.why for revision in lab.core.state.revisions_of(WEB).values()] == ["created"]


def test_it_is_deploying_until_its_launch_has_ended() -> None:
    lab = RollingLab()
    lab.deploy(2)
    assert lab.deployment.status == "Deploying"
    lab.wait(lab.options.transactions.periods.launch + 5)
    assert lab.deployment.status == "Running"
    assert "launch timed out" in lab.deployment.message


def test_creation_is_all_or_nothing() -> None:
    lab = RollingLab()
    lab.create(1)
    records = lab.records()
    assert lab.deploy(1).error == "exists"
    wanted = wish(1, name="other")
    assert lab.ask(requests.CreateDeployment(deployment=wanted)).error == "invalid"
    nothing = Strategy(max_surge=0, max_unavailable=0)
    reply = lab.deploy(1, name="other", strategy=nothing)
    assert (reply.error, reply.problems[0].path) == ("invalid", "$.spec.strategy.rollingupdate")
    assert [r for r in lab.records() if r.kind != "journal"] == [r for r in records if r.kind != "journal"]


def test_a_document_that_no_store_takes_is_refused() -> None:
    lab = RollingLab()
    wanted = msgspec.structs.replace(wish(1), raw="x" * 300_000)
    reply = lab.ask(requests.CreateDeployment(deployment=wanted, version=version(1)))
    assert (reply.error, "300000 bytes" in reply.message) == ("invalid", True)


def test_the_same_name_twice_is_refused() -> None:
    lab = deployed(1)
    assert lab.deploy(1).error == "exists"


# --- adoption ---------------------------------------------------------------------------------------------------------


def adoptable(*labels: dict[str, str]) -> RollingLab:
    lab = RollingLab()
    lab.offer()
    for number, pairs in enumerate(labels):
        lab.ask(requests.CreateApplication(version=named(2, f"app{number}", labels=pairs)))
    lab.run_applications()
    return lab


def test_every_pair_of_the_selector_must_match() -> None:
    lab = adoptable({"app": "web", "tier": "front"}, {"app": "web", "tier": "back"})
    selector = {"app": "web", "tier": "front"}
    reply = lab.ask(requests.CreateDeployment(deployment=wish(0, selector=selector)))
    assert not reply.error
    assert (lab.deployment.application, lab.deployment.instances, lab.deployment.status) == ("app0", 2, "Running")
    assert lab.core.state.revisions_of(WEB)[1].version.labels == selector


def test_several_matches_are_refused_by_name() -> None:
    lab = adoptable({"app": "web"}, {"app": "web"})
    reply = lab.ask(requests.CreateDeployment(deployment=wish(0, selector={"app": "web"})))
    assert (reply.error, "app0, app1" in reply.message) == ("conflict", True)


def test_what_belongs_to_another_deployment_is_not_adopted() -> None:
    lab = adoptable({"app": "web"})
    lab.ask(requests.CreateDeployment(deployment=wish(0, selector={"app": "web"})))
    reply = lab.ask(requests.CreateDeployment(deployment=wish(0, name="other", selector={"app": "web"})))
    assert (reply.error, "matches no application" in reply.message) == ("invalid", True)


def test_a_template_that_says_something_else_is_the_first_update() -> None:
    lab = adoptable({"app": "web"})
    reply = lab.deploy(2, selector={"app": "web"}, labels={"app": "web", "revision": "2"})
    assert reply.data["revision"] == 2
    assert lab.deployment.status == "Update"
    lab.measure()
    lab.run()
    assert (lab.deployment.status, len(lab.groups)) == ("Running", 2)
    assert list(lab.core.state.applications) == [f"default/{lab.deployment.application}"]
    lab.hold_bounds()


def test_a_template_that_says_the_same_is_adopted_as_it_is() -> None:
    lab = adoptable({"app": "web"})
    ids = [group.id for group in lab.groups]
    lab.deploy(3, selector={"app": "web"}, labels={"app": "web"})
    assert lab.deployment.status == "Running"
    lab.run()
    assert len(lab.groups) == 3
    assert set(ids) <= {group.id for group in lab.groups}


# --- what belongs to it -----------------------------------------------------------------------------------------------


def test_its_applications_are_not_changed_past_it() -> None:
    lab = deployed(3)
    lab.renew(3, **NEW)
    for application in (lab.application, lab.successor):
        place: dict[str, Any] = {"namespace": "default", "name": application.name}
        definition = named(3, application.name, labels={"other": "1"})
        for command in (
            requests.ScaleApplication(instances=9, **place),
            requests.ScaleApplication(instances=0, inner=True, **place),
            requests.UpdateApplication(version=definition),
            requests.UpdateApplication(version=definition, resources_only=True),
            requests.RollbackApplication(**place),
            requests.DeleteApplication(enforce=True, **place),
        ):
            reply = lab.ask(command)
            assert (reply.error, "deployment default/web" in reply.message) == ("conflict", True), command
    lab.until("DELETE")
    (scaling,) = [t for t in lab.core.state.active_transactions() if t.type == "INNERSCALE"]
    assert "deployment default/web" in lab.cancel(scaling).message
    lab.run()
    assert lab.deployment.status == "Running"


def test_taskgroups_of_an_update_can_be_rescheduled_but_not_those_that_go() -> None:
    lab = deployed(3)
    lab.renew(3, **NEW)
    lab.until("DELETE")
    (going, *_) = [group for group in lab.old if group.killing_since]
    assert lab.ask(requests.RescheduleTaskGroup(taskgroup=going.id)).error == "conflict"
    stays = next(group for group in lab.old if not group.killing_since)
    assert not lab.ask(requests.RescheduleTaskGroup(taskgroup=stays.id)).error
    lab.run()
    assert (lab.deployment.status, len(lab.groups)) == ("Running", 3)


# --- revisions --------------------------------------------------------------------------------------------------------


def test_revisions_are_kept_as_many_as_the_settings_say() -> None:
    lab = deployed(1, options=CoreOptions(strict=True, transactions=Options(version_history=3)))
    for number in range(2, 7):
        lab.renew(1, labels={"revision": str(number)})
        lab.run()
    lab.wait(PERIOD + 1)
    assert sorted(lab.core.state.revisions_of(WEB)) == [4, 5, 6]
    lab.undo(4)
    lab.run()
    assert lab.deployment.revision == 7
    assert {lab.core.state.version(lab.application.key, g.version).labels["revision"] for g in lab.groups} == {"4"}  # type: ignore[union-attr]
    assert lab.core.state.revisions_of(WEB)[7].why == "rolled back to revision 4"


def test_a_roll_back_needs_a_revision_that_is_kept() -> None:
    lab = deployed(1)
    assert lab.undo().error == "conflict"
    assert lab.undo(9).error == "not_found"
    assert lab.undo(1).data["unchanged"]


def test_a_restart_replaces_every_taskgroup() -> None:
    lab = deployed(3)
    before = {group.id for group in lab.groups}
    lab.control("restart")
    assert lab.deployment.status == "Update"
    lab.run()
    assert not before & {group.id for group in lab.groups}
    assert (lab.deployment.revision, len(lab.groups)) == (2, 3)
    lab.hold_bounds()


# --- deletion ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("updating", [False, True])
def test_it_goes_when_its_applications_are_gone(updating: bool) -> None:
    lab = deployed(3)
    if updating:
        lab.renew(3, **NEW)
    lab.remove()
    assert lab.deployment.status == "Deleting"
    assert lab.deploy(1).error == "exists"
    lab = lab.succeed()
    lab.run()
    state = lab.core.state
    assert not (state.deployments or state.applications or state.taskgroups or state.revisions)
    assert effects.Changed(kind="deployment", key=WEB, record=None, cause="turn") in lab.seen


def test_a_deletion_that_runs_out_of_time_is_tried_again_and_can_be_enforced() -> None:
    lab = deployed(2)
    for group in lab.groups:
        lab.report(group, "UNREACHABLE")
    lab.remove()
    lab.wait(lab.options.transactions.periods.delete + 10)
    running = [t for t in lab.core.state.active_transactions() if t.type == "DELETE"]
    assert len(running) == 1
    assert lab.deployment.status == "Deleting"
    lab.remove(enforce=True)
    lab.run()
    assert not lab.core.state.deployments
    assert not lab.core.state.applications


def test_what_does_not_exist_is_not_found() -> None:
    lab = RollingLab()
    replies = [lab.control("pause"), lab.undo(), lab.resize(1), lab.remove()]
    replies.append(lab.ask(requests.UpdateDeployment(deployment=wish(1), version=version(1))))
    assert {reply.error for reply in replies} == {"not_found"}


# --- plans ------------------------------------------------------------------------------------------------------------


def test_a_plan_of_a_creation_says_what_would_be_placed_where() -> None:
    lab = RollingLab()
    lab.offer()
    wanted = requests.CreateDeployment(deployment=wish(2), version=version(2), dry_run=True)
    reply = lab.ask(wanted)
    assert [place["index"] for place in reply.data["place"]] == [0, 1]
    assert not lab.core.state.deployments


def test_a_plan_of_an_update_is_its_first_step() -> None:
    lab = deployed(4, strategy=Strategy(max_surge=2, max_unavailable=1))
    records = lab.records()
    lab.offer()
    reply = lab.renew(4, dry=True, **NEW)
    assert (len(reply.data["place"]), reply.data["leastReady"], reply.data["mostPresent"]) == (2, 3, 6)
    assert [r for r in lab.records() if r.kind != "journal"] == [r for r in records if r.kind != "journal"]
    first = Strategy(max_surge=0, max_unavailable=2, order="DeleteFirst")
    reply = lab.renew(4, dry=True, strategy=first, **NEW)
    assert len(reply.data["end"]) == 2
    assert not any(group.killing_since for group in lab.groups)


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_an_update_at_the_limit_of_documents_fits_one_commit() -> None:
    lab = RollingLab()
    lab.offer()
    most = deployment_checks.DOCUMENT_BYTES
    wanted = msgspec.structs.replace(wish(2), raw="x" * most, annotations={"notes": "y" * (most // 2)})
    for number in ("1", "2"):
        definition = version(2, labels={"revision": number}, annotations=wanted.annotations)
        kind = requests.CreateDeployment if number == "1" else requests.UpdateDeployment
        units = lab.core.turn([kind(deployment=wanted, version=definition)], lab.now)
        sizes = [sum(len(msgspec.json.encode(c.record)) for c in unit.changes if c.record) for unit in units]
        assert max(sizes) < SMALLEST_LIMIT
        lab.run()
    assert lab.deployment.status == "Running"


# --- what fails unexpectedly ------------------------------------------------------------------------------------------


def test_a_deletion_that_fails_by_itself_is_tried_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = deployed(1, options=CoreOptions())
    broken = True
    honest = delete.Delete.step

    def step(self: delete.Delete, ctx: Context, transaction: Transaction) -> Step:
        if broken:
            raise ValueError("out of order")
        return honest(self, ctx, transaction)

    monkeypatch.setattr(delete.Delete, "step", step)
    lab.remove()
    lab.wait(25)
    tried = [t for t in lab.core.state.transactions.values() if (t.type, t.status) == ("DELETE", "FAIL")]
    assert 2 <= len(tried) <= 3
    broken = False
    lab.wait(11)
    lab.run()
    assert not lab.core.state.deployments


def test_an_error_about_one_deployment_is_told_and_does_not_end_its_update(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = deployed(2, options=CoreOptions())
    lab.renew(2, **NEW)
    honest = rolling.rollout_state
    monkeypatch.setattr(rolling, "rollout_state", lambda *arguments: 1 // 0)
    lab.run()
    told = [
        e for e in lab.seen if isinstance(e, effects.LogLine) and (e.kind, e.reason) == ("deployment", "InternalError")
    ]
    assert "ZeroDivisionError" in told[0].message
    monkeypatch.setattr(rolling, "rollout_state", honest)
    lab.wait(11)
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 2)


@pytest.mark.parametrize("order", ["CreateFirst", "DeleteFirst"])
@pytest.mark.parametrize(
    ("instances", "surge", "unavailable"), [(8, 2, 1), (8, 1, 2), (7, 2, 2), (5, 0, 2), (5, 2, 0), (3, 3, 3), (1, 1, 0)]
)
def test_the_plan_of_an_update_says_of_how_many_steps_it_shows_the_first(
    instances: int, surge: int, unavailable: int, order: Any
) -> None:
    strategy = Strategy(max_surge=surge, max_unavailable=unavailable, order=order)
    lab = RollingLab()
    lab.deploy(instances, strategy=strategy)
    lab.run()
    planned = lab.renew(instances, dry=True, **NEW).data
    assert lab.deployment.revision == 1
    assert not lab.renew(instances, **NEW).error
    steps = 0
    while lab.deployment.updating:
        steps = max(steps, lab.deployment.step)
        lab.once()
    least = planned.get("steps", 1)
    assert planned.get("replaced", instances) == instances
    if surge and unavailable:
        assert least == steps
    else:  # one step may have one half only
        assert least <= steps <= least + 1


@pytest.mark.parametrize(("instances", "bound", "steps"), [(8, 2, 4), (8, 3, 3), (2, 2, 0)])
def test_the_plan_of_an_update_of_an_application_says_so_too(instances: int, bound: int, steps: int) -> None:
    lab = Lab()
    lab.offer(cpus=16_000)
    lab.create(instances)
    lab.run()
    changed = requests.UpdateApplication(
        version=version(instances, **NEW), max_unavailable=bound, dry_run=True, token=1
    )
    lab.turn(changed)
    found = [*lab.sent(effects.Reply), *(one for one in lab.wait(5.0) if isinstance(one, effects.Reply))]
    data = found[0].data
    assert len(data["end"]) == bound
    assert (data.get("steps", 0), data.get("replaced", 0)) == (steps, instances if steps else 0)
