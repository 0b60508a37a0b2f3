"""Configmaps and secrets: kept, taken at launch, and waited for when they are missing."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from bcs_scheduler.core.interface import cluster_manager, effects, inputs, requests
from bcs_scheduler.core.requests.concurrency import version_of
from bcs_scheduler.core.requests.kinds.configuration import OBJECT_BYTES
from store.encoding.codec import Stored, decode, encode
from store.records import ConfigItem, ConfigMap, Secret, Transaction, Version
from store.records.definition import Amounts, Container, Item, Process, Reference
from tests.unit.lab import Lab, version
from transactions import explain

PASSWORD = b64encode(b"swordfish").decode()


def secret(**items: str) -> Secret:
    return Secret(namespace="default", name="db", items=items or {"password": PASSWORD})


def config(**items: ConfigItem) -> ConfigMap:
    return ConfigMap(namespace="default", name="app", items=items or {"toml": ConfigItem(content=PASSWORD)})


def container(*, process: bool = False) -> Container:
    return Container(
        command="" if process else "serve",
        process=Process(start="./start.sh") if process else None,
        requests=Amounts(cpus=100, mem=32_000),
        configmaps=(Reference(name="app", items=(Item(type="file", key="toml", target="app.toml"),)),),
        secrets=(Reference(name="db", items=(Item(type="env", key="password", target="PASSWORD"),)),),
    )


def needy(instances: int = 1, **fields: Any) -> Version:
    return version(instances, **{"containers": (container(),), **fields})


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.ask(requests.PutConfigMap(config_map=config()))
    lab.ask(requests.PutSecret(secret=secret()))
    return lab


def create(lab: Lab, wanted: Version | None = None, **fields: object) -> effects.Reply:
    return lab.ask(requests.CreateApplication(version=wanted or needy(), **fields))  # type: ignore[arg-type]


def missing(lab: Lab, transaction: Transaction) -> list[str]:
    """What the diagnosis of an operation names as its reasons, if no agent has been asked."""
    diagnosis = lab.core.diagnosis(transaction.id)
    return list(diagnosis.reasons) if diagnosis is not None and not diagnosis.agents else []


# --- the objects ----------------------------------------------------------------------------------------------------


def test_an_object_is_created_once_and_replaced_as_a_whole(lab: Lab) -> None:
    created = lab.core.state.secrets["default/db"].created_at
    assert lab.ask(requests.PutSecret(secret=secret(), create=True)).error == "exists"
    lab.now += 5
    reply = lab.ask(requests.PutSecret(secret=secret(token=PASSWORD), create=False))
    assert reply.data == {"namespace": "default", "name": "db", "differs": ["password", "token"]}
    kept = lab.core.state.secrets["default/db"]
    assert set(kept.items) == {"token"}
    assert (kept.created_at, kept.updated_at) == (created, lab.now)


def test_an_object_that_does_not_exist_is_neither_replaced_nor_deleted() -> None:
    lab = Lab()
    assert lab.ask(requests.PutConfigMap(config_map=config(), create=False)).error == "not_found"
    assert lab.ask(requests.DeleteConfigMap(namespace="default", name="app")).error == "not_found"
    assert lab.ask(requests.DeleteSecret(namespace="default", name="db")).error == "not_found"
    assert not lab.core.state.config_maps


def test_an_object_no_store_could_hold_is_refused() -> None:
    lab = Lab()
    reply = lab.ask(requests.PutSecret(secret=secret(big="x" * OBJECT_BYTES)))
    assert reply.error == "invalid" and str(OBJECT_BYTES) in reply.message
    assert not lab.core.state.secrets


def test_a_plan_keeps_nothing() -> None:
    lab = Lab()
    reply = lab.ask(requests.PutSecret(secret=secret(), dry_run=True))
    assert reply.data["dryRun"] is True
    assert not lab.core.state.secrets


def test_what_a_secret_holds_is_told_to_nobody() -> None:
    lab = Lab()
    lab.ask(requests.PutConfigMap(config_map=config(x=ConfigItem(type="http", user="u", password="swordfish"))))
    lab.ask(requests.PutSecret(secret=secret()))
    told = [repr(effect) for effect in lab.out]
    told += [repr(record) for record in lab.records()]
    create(lab)
    told += [repr(effect) for effect in lab.out]
    lab.ask(requests.DeleteSecret(namespace="default", name="db"))
    told += [repr(effect) for effect in lab.out]
    assert not [words for words in told if PASSWORD in words or "swordfish" in words]


# --- definitions that refer to them ---------------------------------------------------------------------------------


@pytest.mark.parametrize("process", [False, True])
def test_a_definition_that_refers_to_nothing_is_refused_with_everything_that_is_missing(process: bool) -> None:
    lab = Lab()
    lab.ask(requests.PutConfigMap(config_map=config(other=ConfigItem())))
    wanted = version(1, containers=(container(process=process),))
    reply = create(lab, wanted, type="process" if process else "application")
    assert reply.error == "invalid"
    part = "processes" if process else "containers"
    assert [(p.path, p.message) for p in reply.problems] == [
        (f"$.spec.template.spec.{part}[0]", "configmap default/app has no key 'toml'"),
        (f"$.spec.template.spec.{part}[0]", "secret default/db does not exist"),
    ]
    assert not lab.core.state.applications


def test_an_update_to_what_is_missing_is_refused(lab: Lab) -> None:
    lab.offer()
    create(lab, version(1))
    lab.run()
    lab.ask(requests.DeleteSecret(namespace="default", name="db"))
    reply = lab.ask(requests.UpdateApplication(version=needy()))
    assert reply.error == "invalid" and "secret default/db does not exist" in reply.message
    assert lab.group().status == "Running" and not lab.group().killing_since


# --- launches -------------------------------------------------------------------------------------------------------


def test_a_launch_carries_what_they_hold_at_that_moment(lab: Lab) -> None:
    create(lab)
    lab.ask(requests.PutSecret(secret=secret(password=b64encode(b"new").decode())))
    lab.offer()
    (accept,) = lab.sent(cluster_manager.LaunchOnAgent)
    (injected,) = accept.launches[0].injected
    assert [(c.item.target, c.secret) for c in injected.contents] == [("app.toml", False), ("PASSWORD", True)]
    assert injected.contents[1].data == b64encode(b"new").decode()


def test_a_launch_that_needs_nothing_carries_nothing(lab: Lab) -> None:
    create(lab, version(1))
    lab.offer()
    (accept,) = lab.sent(cluster_manager.LaunchOnAgent)
    assert accept.launches[0].injected == ()


def test_a_secret_that_vanished_before_the_launch_is_waited_for(lab: Lab) -> None:
    create(lab)
    lab.ask(requests.DeleteSecret(namespace="default", name="db"))
    lab.offer()
    assert not lab.sent(cluster_manager.LaunchOnAgent) and not lab.groups
    transaction = lab.transaction("LAUNCH")
    words = "waiting for configuration: secret default/db does not exist"
    assert transaction.history[-1].text == words and lab.application.message == words
    assert missing(lab, transaction) == ["secret default/db does not exist"]
    lab.ask(requests.PutSecret(secret=secret()))
    assert not missing(lab, transaction)
    lab.offer()
    assert lab.group().status == "Staging"
    assert lab.transaction("LAUNCH").status == "FINISH"


def test_the_diagnosis_says_how_many_taskgroups_wait_for_what(lab: Lab) -> None:
    create(lab, needy(3))
    lab.ask(requests.DeleteSecret(namespace="default", name="db"))
    diagnosis = lab.core.diagnosis(lab.transaction("LAUNCH").id)
    assert diagnosis is not None and (diagnosis.slots, diagnosis.placed) == (3, 0)
    assert explain.reasons(diagnosis) == "waiting for configuration: secret default/db does not exist"


def test_a_key_that_vanished_is_waited_for_while_the_offer_is_held(lab: Lab) -> None:
    lab.ask(requests.PutSecret(secret=secret(other=PASSWORD)))
    lab.ask(requests.PutSecret(secret=secret()))
    create(lab)
    lab.ask(requests.PutSecret(secret=secret(other=PASSWORD)))
    assert missing(lab, lab.transaction("LAUNCH")) == ["secret default/db has no key 'password'"]
    lab.turn(inputs.Tick())
    assert not lab.core.turn_context.engine.demands


def test_the_verdict_of_a_launch_that_ran_out_of_time_says_what_was_missing(lab: Lab) -> None:
    create(lab)
    lab.ask(requests.DeleteSecret(namespace="default", name="db"))
    lab.wait(1801)
    ended = lab.transaction("LAUNCH")
    assert ended.status == "TIMEOUT"
    assert ended.message == "after 30m still waiting for configuration: secret default/db does not exist"
    assert len(ended.history) == 3


def test_a_successor_waits_on_and_goes_on(lab: Lab) -> None:
    create(lab)
    lab.ask(requests.DeleteSecret(namespace="default", name="db"))
    lab.offer()
    successor = lab.succeed()
    successor.offer()
    assert missing(successor, successor.transaction("LAUNCH")) and not successor.groups
    assert len(successor.transaction("LAUNCH").history) == len(lab.transaction("LAUNCH").history)
    successor.ask(requests.PutSecret(secret=secret()))
    assert [group.status for group in successor.groups] == ["Staging"]


def test_nothing_is_ended_for_a_version_that_cannot_be_launched(lab: Lab) -> None:
    lab.offer()
    create(lab, version(3))
    lab.run()
    lab.turn(
        requests.UpdateApplication(token=1, version=needy(3)),
        requests.DeleteSecret(token=2, namespace="default", name="db"),
    )
    assert not [group for group in lab.groups if group.killing_since]
    lab.ask(requests.PutSecret(secret=secret()))
    lab.turn(inputs.Tick())
    assert [group for group in lab.groups if group.killing_since]


def test_a_running_taskgroup_is_not_rescheduled_into_nothing(lab: Lab) -> None:
    lab.offer()
    create(lab)
    lab.run()
    lab.ask(requests.DeleteSecret(namespace="default", name="db"))
    reply = lab.ask(requests.RescheduleTaskGroup(taskgroup=lab.group().id))
    assert reply.error == "invalid" and not lab.group().killing_since


def test_the_plan_of_a_scale_up_says_what_is_missing(lab: Lab) -> None:
    lab.offer()
    create(lab)
    lab.run()
    lab.ask(requests.DeleteSecret(namespace="default", name="db"))
    lab.offer()
    reply = lab.ask(requests.ScaleApplication(namespace="default", name="web", instances=2, dry_run=True))
    assert reply.data["place"] == [] and reply.data["unplaced"] == 1
    assert reply.data["message"] == "waiting for configuration: secret default/db does not exist"


@pytest.mark.parametrize("dry_run", [False, True])
def test_of_two_who_replace_the_same_version_in_one_turn_one_is_refused(lab: Lab, dry_run: bool) -> None:
    read = version_of(lab.core.state.config_maps["default/app"])
    one, other = config(toml=ConfigItem(content="YQ==")), config(toml=ConfigItem(content="Yg=="))
    replacing = (
        requests.PutConfigMap(config_map=one, expected=read, token=901),
        requests.PutConfigMap(config_map=other, expected=read, token=902, dry_run=dry_run),
    )
    replies = {effect.token: effect for effect in lab.turn(*replacing) if isinstance(effect, effects.Reply)}
    assert (replies[901].error, replies[902].error) == ("", "conflict")
    kept = lab.core.state.config_maps["default/app"]
    assert kept.items["toml"].content == "YQ==" and version_of(kept) != read
    assert read in replies[902].message and version_of(kept) in replies[902].message


def test_a_version_is_the_same_after_it_has_been_stored(lab: Lab) -> None:
    lab.now += 0.123456789
    lab.ask(requests.PutSecret(secret=secret(password="YQ==")))
    record = lab.core.state.secrets["default/db"]
    loaded = decode(Stored("secret", record.key, encode(record)))
    assert isinstance(loaded, Secret) and version_of(loaded) == version_of(record)
