"""Documents that users of the original have, sent below a prefix of its driver: what its clients are answered, and what
runs then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.api.original.paths import DRIVER
from bcs_scheduler.core.interface.leased import OffersArrived
from store.records import TaskGroup
from tests.component.apiserver import Api
from tests.goanswers import differences, type_of
from tests.unit.api_support import CoreGateway, make_offer

FOLDER = Path(__file__).parent.parent / "documents"
PREFIX = DRIVER[1]
FIN = "/namespaces/fin"
APPS, DEPLOYMENTS = f"{FIN}/applications", f"{FIN}/deployments"
PLAIN = ("POST", APPS, "application-limits-only")
ROUNDS = 12
"""Rounds of offers and reports after which nothing changes any more."""


class Agents(CoreGateway):
    """Agents agent-1 to agent-3 that do at once what they are told."""

    def settle(self) -> None:
        for _ in range(ROUNDS):
            offers = (
                make_offer(i, 8, 8192)._replace(hostname=f"agent-{i}", attributes={"idc": "here"}) for i in (1, 2, 3)
            )
            self.feed(OffersArrived(offers=tuple(offers)))
            self.obey()

    def groups(self, key: str) -> list[TaskGroup]:
        return [group for group in self.core.state.groups_of(key).values() if not group.ended]


@pytest.fixture
def gateway() -> Agents:
    made = Agents()
    made.connect()
    return made


def send(api: Api, method: str, path: str, name: str = "", code: int = 0) -> Any:
    """The answer of a client's request with the document of this name."""
    body = (FOLDER / f"{name}.json").read_bytes() if name else None
    response = api.call(method, path, base=PREFIX, data=body, headers={"BCS-ClusterID": "BCS-MESOS-10001"})
    answer = response.json()
    assert (response.status_code, answer["code"]) == (200, code), answer
    if code == 0:
        assert differences(answer["data"], type_of(method, path.partition("?")[0])) == []
    return answer


ACCEPTED = {
    "a fixed address in BRIDGE": ("POST", APPS, "application-address-in-bridge-network", "parameters[0].key"),
    "a check without type": ("POST", APPS, "application-check-without-type", "healthChecks[0].type"),
    "a nested union": ("POST", APPS, "application-nested-union", "unionData[1].unionData"),
    "UNLIKE of an empty set": ("POST", APPS, "application-unlike-empty-set", "set.item"),
    "a part of a name": ("POST", APPS, "application-unlike-part-of-a-name", ""),
    "one ftp item": ("POST", f"{FIN}/configmaps", "configmap-one-ftp-item", "$.datas.b.type"),
    "a variable twice": ("POST", APPS, "application-duplicate-variable", "env[1].name"),
    "a key twice": ("POST", APPS, "application-key-twice", "$.killPolicy"),
    "limits alone": (*PLAIN, ""),
}
"""Request, document, and the part that the message names; empty: no part is named."""


@pytest.mark.parametrize("what", ACCEPTED)
def test_a_document_is_accepted_and_the_message_names_what_has_no_effect(api: Api, what: str) -> None:
    method, path, name, named = ACCEPTED[what]
    message = send(api, method, path, name)["message"]
    assert message == "success" if not named else message.startswith("success") and f"{named}: " in message


RUNNING = {
    "application-nested-union": ("fin/cn", 1),
    "application-unlike-empty-set": ("fin/us", 1),
    "application-unlike-part-of-a-name": ("fin/ul", 0),
}
"""Application, and the number of its taskgroups that have a place on agents agent-1 to agent-3."""


@pytest.mark.parametrize("name", RUNNING)
def test_constraints_fit_as_in_the_original(api: Api, gateway: Agents, name: str) -> None:
    key, number = RUNNING[name]
    send(api, "POST", APPS, name)
    gateway.settle()
    assert len(gateway.groups(key)) == number


def test_the_last_variable_and_the_last_key_count(api: Api, gateway: Agents) -> None:
    send(api, "POST", APPS, "application-duplicate-variable")
    send(api, "POST", APPS, "application-key-twice")
    gateway.settle()
    (group,) = gateway.groups("fin/en")
    version = send(api, "GET", f"{APPS}/en/versions/{group.version}")["data"]
    assert version["Container"][0]["Docker"]["Env"] == {"A": "2"}
    assert send(api, "GET", f"{APPS}/k/versions/{gateway.groups('fin/k')[0].version}")["data"]["KillPolicy"] == {
        "gracePeriod": 5
    }


def test_what_has_no_effect_is_left_out(api: Api, gateway: Agents) -> None:
    send(api, "POST", APPS, "application-address-in-bridge-network")
    send(api, "POST", APPS, "application-check-without-type")
    gateway.settle()
    state = gateway.core.state
    fixed = state.version("fin/ip", state.applications["fin/ip"].version)
    checked = state.version("fin/hc", state.applications["fin/hc"].version)
    assert fixed is not None and fixed.containers[0].parameters == ()
    assert checked is not None and checked.containers[0].health_checks == ()


def test_the_memory_of_a_running_taskgroup_is_raised_in_place(api: Api, gateway: Agents) -> None:
    send(api, *PLAIN)
    gateway.settle()
    (before,) = gateway.groups("fin/r")
    send(api, "PUT", f"{APPS}?args=resource", "application-limits-raised")
    gateway.settle()
    (after,) = gateway.groups("fin/r")
    assert (after.id, after.status) == (before.id, "Running") and after.version != before.version
    task = send(api, "GET", f"{APPS}/r/taskgroups")["data"][0]["Taskgroup"][0]
    assert (task["DataClass"]["LimitResources"]["Mem"], task["DataClass"]["Resources"]["Mem"]) == (48, 32)


def test_definitions_transactions_taskgroups_and_versions_decode(api: Api, gateway: Agents) -> None:
    send(api, *PLAIN)
    definition = send(api, "GET", "/definition/application/fin/r")["data"]
    assert definition["metadata"]["creationTimestamp"] == "0001-01-01T00:00:00Z"
    launch = send(api, "GET", "/transactions/fin")["data"][0]
    assert launch["curOp"]["opLaunchData"]["version"]["ID"] == "r"
    gateway.settle()
    group = send(api, "GET", f"{APPS}/r/taskgroups")["data"][0]
    periods = [group["KillPolicy"]["gracePeriod"], *(group["RestartPolicy"][name] for name in ("interval", "backoff"))]
    assert all(type(period) is int for period in periods)
    version = send(api, "GET", f"{APPS}/r/versions/{group['VersionName']}")["data"]
    assert version["Container"][0]["Docker"]["Env"] == {} and version["Constraints"] is None
    assert version["raw_json"]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] == "32"


def test_the_id_of_a_command_is_a_text(api: Api, gateway: Agents) -> None:
    send(api, *PLAIN)
    gateway.settle()
    identity = send(api, "POST", "/command/application/fin/r", "command-of-limits-only")["data"]
    assert send(api, "GET", f"/command/application/fin/r?id={identity}")["data"]["id"] == identity


def test_no_instances_are_refused(api: Api, gateway: Agents) -> None:
    assert "$.spec.instance" in send(api, "POST", APPS, "application-instance-zero", code=1405008)["message"]
    assert not gateway.core.state.applications


def test_an_update_by_hand_pauses_after_each_step_that_was_written(api: Api, gateway: Agents) -> None:
    send(api, "POST", DEPLOYMENTS, "deployment-manual-steps")
    gateway.settle()

    def sizes() -> list[int]:
        """Taskgroups of the old and of the new definition."""
        state = gateway.core.state
        versions = [state.version(key, group.version) for key in state.applications for group in gateway.groups(key)]
        seconds = [version.containers[0].args for version in versions if version is not None]
        return [seconds.count(one) for one in (("900",), ("901",))]

    strategy = send(api, "GET", "/definition/deployment/fin/ten")["data"]["spec"]["strategy"]["rollingupdate"]
    assert strategy["maxUnavilable"] == 3
    assert sizes() == [10, 0]
    send(api, "PUT", DEPLOYMENTS, "deployment-manual-steps-of-an-update")
    steps = []
    for _ in range(4):
        gateway.settle()
        steps.append(sizes())
        if sizes() != [0, 10]:
            send(api, "PUT", f"{DEPLOYMENTS}/ten/resumeupdate")
    assert steps == [[7, 3], [4, 6], [1, 9], [0, 10]]
