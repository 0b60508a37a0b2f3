"""Reserved addresses and limits of bandwidth: what documents ask for, and which agents can (decision 42)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.documents.convert import to_version
from bcs_scheduler.api.documents.daemonset import read_daemonset
from bcs_scheduler.api.documents.validate import read_application
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.effects import Reply
from bcs_scheduler.core.interface.leased import OffersArrived
from bcs_scheduler.wire.problems import Problems
from offers.rules.constraints import found_anywhere
from store.records import Version
from store.records.definition import ReservedAddress
from tests.unit.api_support import CoreGateway, make_offer
from transactions import explain

LOBBY = Path(__file__).parents[1] / "golden" / "applications" / "lobby.json"
LABEL = "io.tencent.bcs.netsvc.requestip"
KEY = "arena/lobby"
ABLE = {"bcs-fixed-address": "other,arena-net", "bcs-egress-limit": "*"}


def lobby(**labels: str) -> Any:
    """The example without its taint and its rule about hosts; `labels`: instead of its addresses."""
    raw = json.loads(LOBBY.read_text())
    del raw["constraint"]
    if labels:
        raw["metadata"]["labels"] = labels
    return raw


def version_of(raw: Any) -> Version:
    return to_version(read_application(raw, namespace="arena", creating=True, problems=Problems("Warn")), 0)


def problems_of(raw: Any) -> dict[str, str]:
    with pytest.raises(ApiError) as refused:
        version_of(raw)
    return {problem.path: problem.message for problem in refused.value.problems}


def warnings_of(raw: Any) -> list[str]:
    problems = Problems("Warn")
    read_application(raw, namespace="arena", creating=True, problems=problems)
    return [warning.path for warning in problems.warnings()]


def labelled(*values: str) -> dict[str, str]:
    return {f"{LABEL}.{index}": value for index, value in enumerate(values)}


def test_a_document_becomes_addresses_by_taskgroup_and_a_limit() -> None:
    version = version_of(lobby())
    assert version.egress_limit == 200
    assert version.reserved == (
        # As in the original, a word is found anywhere in the value, and a glob is compared with the whole value.
        ReservedAddress(
            index=0,
            addresses=("10.20.0.11",),
            attribute="InnerIP",
            patterns=(found_anywhere("10.10.1.4"), found_anywhere("10.10.1.5")),
        ),
        ReservedAddress(index=1, addresses=("10.20.0.12",), attribute="hostname", patterns=("rack7-*",)),
    )
    assert version_of(json.loads(version.raw)) == version


def test_a_label_wins_over_an_annotation_and_blanks_mean_nothing() -> None:
    raw = lobby(**labelled(" 10.0.0.1 ; fd00::1 "))
    raw["metadata"]["annotations"] = {f"{LABEL}.0": "10.9.9.9", f"{LABEL}.1": "10.0.0.2 | zone = a.*b"}
    assert version_of(raw).reserved == (
        ReservedAddress(index=0, addresses=("10.0.0.1", "fd00::1")),
        ReservedAddress(index=1, addresses=("10.0.0.2",), attribute="zone", patterns=("re:(?s:.*)(?:a.*b)(?s:.*)",)),
    )


@pytest.mark.parametrize(
    ("labels", "path", "words"),
    [
        (labelled("10.0.0.1"), "$.spec.instance", "no address is reserved for taskgroup 1"),
        (labelled("10.0.0.1", "no"), f'$.metadata.labels["{LABEL}.1"]', "must be <address>"),
        (labelled("10.0.0.1", ""), f'$.metadata.labels["{LABEL}.1"]', "must be <address>"),
        (labelled("10.0.0.1", "10.0.0.1"), f'$.metadata.labels["{LABEL}.1"]', "is used already by"),
        (labelled("10.0.0.1", "10.0.0.2;10.0.0.3"), f'$.metadata.labels["{LABEL}.1"]', "one address of IPv4"),
        (labelled("10.0.0.1", "10.0.0.2|zone"), f'$.metadata.labels["{LABEL}.1"]', "after '|'"),
        (labelled("10.0.0.1", "10.0.0.2|zone="), f'$.metadata.labels["{LABEL}.1"]', "after '|'"),
        (labelled("10.0.0.1", "10.0.0.2|zone=a(b"), f'$.metadata.labels["{LABEL}.1"]', "at character"),
    ],
)
def test_what_no_taskgroup_could_have_is_refused(labels: dict[str, str], path: str, words: str) -> None:
    found = problems_of(lobby(**labels))
    assert found.keys() == {path} and words in found[path]


def test_an_address_is_for_one_container_unless_mesos_runs_them_in_one_network() -> None:
    raw = lobby()
    containers = raw["spec"]["template"]["spec"]["containers"]
    del containers[0]["hostname"]
    containers.append({"image": "demo/other:1"})
    assert "each container of a taskgroup has an address" in next(iter(problems_of(raw).values()))
    raw["spec"]["template"]["spec"]["executor"] = "mesos"
    assert len(version_of(raw).reserved) == 2


def test_parts_without_effect_are_warned_of() -> None:
    raw = lobby(**labelled("10.0.0.1", "10.0.0.2"), **{LABEL: "10.0.0.9", f"{LABEL}.x": ""})
    raw["spec"]["template"]["metadata"] = {"annotations": {f"{LABEL}.0": "10.0.0.1"}}
    assert warnings_of(raw) == [
        f'$.spec.template.metadata.annotations["{LABEL}.0"]',
        f'$.metadata.labels["{LABEL}"]',
        f'$.metadata.labels["{LABEL}.x"]',
    ]
    raw = lobby(**labelled("10.0.0.1", "10.0.0.2"))
    raw["spec"]["template"]["spec"] |= {"networkMode": "BRIDGE", "networktype": "", "netLimit": {}}
    raw["spec"]["template"]["spec"]["containers"][0].pop("ports")
    assert warnings_of(raw) == [f'$.metadata.labels["{LABEL}.0"]']


def test_taskgroups_of_a_daemonset_have_no_numbers() -> None:
    raw = lobby()
    raw["kind"] = "daemonset"
    del raw["restartPolicy"]
    with pytest.raises(ApiError) as refused:
        read_daemonset(raw, namespace="arena", problems=Problems("Warn"))
    assert [problem.path for problem in refused.value.problems] == [
        f'$.metadata.labels["{LABEL}.0"]', f'$.metadata.labels["{LABEL}.1"]'
    ]  # fmt: skip


# --- placement ----------------------------------------------------------------------------------------------------


class Cluster:
    def __init__(self) -> None:
        self.gateway = CoreGateway()
        self.gateway.connect()
        self.state = self.gateway.core.state

    def offer(self, agent: int, **attributes: str) -> None:
        made = make_offer(agent, 8, 8192)
        self.gateway.feed(OffersArrived(offers=(made._replace(attributes={**made.attributes, **attributes}),)))

    def ask(self, request: requests.Request) -> Reply:
        return self.gateway.submit(request).result(5)

    def create(self, raw: Any, *, dry_run: bool = False) -> dict[str, Any]:
        answer = self.ask(requests.CreateApplication(version=version_of(raw), dry_run=dry_run))
        assert not answer.error, answer.message
        return dict(answer.data)

    def places(self) -> dict[int, str]:
        return {group.index: group.hostname for group in self.state.groups_of(KEY).values()}

    def reasons(self) -> str:
        (transaction,) = self.state.active_of(KEY).values()
        diagnosis = self.gateway.diagnosis(transaction.id)
        assert diagnosis is not None
        return explain.reasons(diagnosis)


def test_only_an_agent_that_says_that_it_can_is_taken() -> None:
    cluster = Cluster()
    cluster.offer(1)
    cluster.create(lobby(**labelled("10.0.0.1", "10.0.0.2")))
    assert cluster.places() == {}
    words = cluster.reasons()
    assert "network arena-net limits no bandwidth (attribute bcs-egress-limit does not name it)" in words
    cluster.offer(2, **{"bcs-egress-limit": "arena-net"})
    assert cluster.places() == {}
    assert "network arena-net takes no reserved addresses (attribute bcs-fixed-address" in cluster.reasons()
    cluster.offer(3, **ABLE)
    assert cluster.places() == {0: "host-3"}, "one after the other: the rest of the agent is offered again"
    cluster.offer(3, **ABLE)
    assert cluster.places() == {0: "host-3", 1: "host-3"}


@pytest.mark.parametrize("names", ["arena-net", "*", "a,arena-net", "arena-net,b", "a,arena-net,b"])
def test_an_agent_names_the_networks_that_can(names: str) -> None:
    cluster = Cluster()
    cluster.offer(1, **{"bcs-fixed-address": names, "bcs-egress-limit": names})
    cluster.create(lobby(**labelled("10.0.0.1", "10.0.0.2")))
    assert cluster.places() == {0: "host-1"}


@pytest.mark.parametrize("names", ["", "arena", "arena-net2", "x-arena-net", "arena-*"])
def test_other_networks_of_an_agent_do_not_count(names: str) -> None:
    cluster = Cluster()
    cluster.offer(1, **{"bcs-fixed-address": names, "bcs-egress-limit": names})
    cluster.create(lobby(**labelled("10.0.0.1", "10.0.0.2")))
    assert cluster.places() == {}


def test_a_taskgroup_goes_where_its_address_is() -> None:
    cluster = Cluster()
    cluster.offer(1, **ABLE)
    cluster.offer(2, **ABLE)
    cluster.create(lobby(**labelled("10.0.0.1|zone=z2", "10.0.0.2|hostname=host-1;rack9")))
    assert cluster.places() == {0: "host-2", 1: "host-1"}


def test_a_dry_run_says_which_taskgroup_finds_no_place_and_why() -> None:
    cluster = Cluster()
    cluster.offer(1, **ABLE)
    raw = lobby(**labelled("10.0.0.1|zone=z7", "10.0.0.2"))
    plan = cluster.create(raw, dry_run=True)
    assert [place["index"] for place in plan["place"]] == [1] and plan["unplaced"] == 1
    assert "attribute zone does not fit the reserved address 10.0.0.1 of taskgroup 0" in plan["message"]
    assert cluster.state.applications == {}


def test_a_replacement_keeps_the_agents_of_its_address() -> None:
    cluster = Cluster()
    for agent in (1, 2):
        cluster.offer(agent, **ABLE)
    cluster.create(lobby(**labelled("10.0.0.1|zone=z2", "10.0.0.2")))
    before = cluster.places()
    cluster.gateway.report("RUNNING", KEY)
    (first,) = [group for group in cluster.state.groups_of(KEY).values() if group.index == 0]
    assert not cluster.ask(requests.RescheduleTaskGroup(taskgroup=first.id)).error
    cluster.gateway.report_taskgroup("KILLED", first.id)
    cluster.offer(1, **ABLE)
    assert first.id in cluster.state.groups_of(KEY), "no other agent has its address"
    cluster.offer(2, **ABLE)
    assert cluster.places() == before
    assert first.id not in cluster.state.groups_of(KEY)


def test_more_taskgroups_than_addresses_are_refused() -> None:
    cluster = Cluster()
    cluster.offer(1, **ABLE)
    raw = lobby(**labelled("10.0.0.1", "10.0.0.2"))
    cluster.create(raw)
    answer = cluster.ask(
        requests.ScaleApplication(namespace="arena", name="lobby", instances=3, on_conflict="supersede")
    )
    assert answer.error == "invalid" and "none is for 2" in answer.message
    fewer = copy.deepcopy(raw)
    del fewer["metadata"]["labels"][f"{LABEL}.1"]
    fewer["spec"]["instance"] = 1
    version = msgspec.structs.replace(version_of(fewer), instances=0)
    answer = cluster.ask(requests.UpdateApplication(version=version, on_conflict="supersede"))
    assert answer.error == "invalid" and "none is for 1" in answer.message
