"""Another number of taskgroups, strategy or document for an update that continues: the present step is adapted to the
change."""

from __future__ import annotations

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.rollout import revisions, update_records
from store.ids import part_key
from store.records import Deployment
from transactions.rules import rolling
from transactions.text import counted


def resize(turn: TurnContext, present: Deployment, instances: int) -> Deployment:
    """The deployment wants another number of taskgroups, also if its update is undone later. A revision that follows
    the update gets the number, too. Returns the deployment as it was if it wants that number already, in both cases."""
    if instances == present.instances == present.previous_instances:
        return present
    if instances == present.instances:
        words = f"{counted(instances, 'taskgroup')}, also if the update is undone"
    else:
        words = f"from {present.instances} to {counted(instances, 'taskgroup')}; the update continues"
    update_records.record_event(turn, present, "DeploymentScaled", words)
    waiting = turn.state.revisions.get(part_key(present.key, present.next_revision))
    if waiting is not None:
        version = msgspec.structs.replace(waiting.version, instances=instances)
        turn.uow.put(msgspec.structs.replace(waiting, version=version, instances=instances))
    changed = update_records.put(turn, present, instances=instances, previous_instances=instances)
    return _fit(turn, changed)


def redocument(turn: TurnContext, present: Deployment, documented: Deployment) -> Deployment:
    """The document of the running update comes with another strategy, text, labels or annotations; `documented`: the
    deployment with them. The number of taskgroups is that of `present`."""
    revision = turn.state.revisions.get(present.revision_key)
    if documented == present:
        return present
    if revision is not None:
        turn.uow.put(revisions.revised(revision, documented))
    update_records.record_event(turn, documented, "DeploymentChanged", "the update continues with the change")
    return _fit(turn, update_records.put(turn, documented))


def _fit(turn: TurnContext, deployment: Deployment) -> Deployment:
    """Reduces the target of the adding phase in progress to the present number and bounds. Placed taskgroups stay; the
    step continues with the smaller target. The removing phase checks the bounds before each end."""
    found = rolling.rollout_state(turn.state, deployment, turn.now)
    if found is None or found.growing.adding is None:
        return deployment
    adding, growing = found.growing.adding, found.growing
    without = found._replace(growing=growing._replace(launching=0))
    target = min(adding.target, growing.wanted + rolling.to_add(without, rolling.wanted_new(deployment)))
    if target == adding.target:
        return deployment
    turn.uow.put(msgspec.structs.replace(adding, target=target))
    application = turn.state.applications[growing.application.key]
    turn.uow.put(msgspec.structs.replace(application, instances=target, updated_at=turn.now))
    return update_records.put(turn, deployment, up_target=target) if deployment.phase == "START" else deployment
