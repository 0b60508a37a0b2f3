"""Documents of kind deployment: what is accepted becomes the right records; everything wrong is named with its path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.api.documents.deployment import NAME_LENGTH, read_deployment, to_definition, to_deployment
from bcs_scheduler.api.documents.validate import Present
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.wire.documents.deployment import DeploymentDocument
from bcs_scheduler.wire.problems import Problems
from store.records import Canary, Strategy, Version
from tests.unit.deployment_support import deployment

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "deployments"
ROLLING = "$.spec.strategy.rollingupdate"
TASKS = "$.spec.template.spec"


def read(raw: Any, namespace: str = "shop", **more: Any) -> DeploymentDocument:
    return read_deployment(raw, namespace=namespace, **more)


def problems_of(raw: Any, namespace: str = "shop", **more: Any) -> dict[str, str]:
    """Message by path of everything that is wrong."""
    with pytest.raises(ApiError) as refused:
        read(raw, namespace, **more)
    assert refused.value.failure.status == 422
    return {problem.path: problem.message for problem in refused.value.problems}


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def definition_of(raw: Any, namespace: str = "shop") -> Version:
    version = to_definition(read(raw, namespace, problems=Problems("Warn")))
    assert version is not None
    return version


# --- what is accepted -----------------------------------------------------------------------------------------


def test_an_example_of_the_original_becomes_what_it_describes() -> None:
    raw = golden("front")
    record, version = to_deployment(read(raw, "sandbox")), definition_of(raw, "sandbox")
    assert (record.key, record.instances, record.selector) == ("sandbox/front", 4, {"app": "front"})
    assert record.strategy == Strategy(max_unavailable=1, max_surge=1, pause=20.0, order="CreateFirst")
    assert (version.application, version.instances, version.labels) == ("front", 4, {"app": "front"})
    assert version.containers[0].health_checks[0].port_name == "http"
    assert version.restart_policy.policy == "Always" and version.kill_policy.grace_period == 10.0


def test_steps_by_hand_and_constraints_are_taken_from_an_example() -> None:
    raw = golden("ledger")
    record, version = to_deployment(read(raw, "bank", problems=Problems("Warn"))), definition_of(raw, "bank")
    assert record.strategy == Strategy(max_unavailable=1, max_surge=1, pause=300.0, order="DeleteFirst", manual=True)
    assert version.constraints[0][0].operator == "UNLIKE"


def test_an_example_without_a_template_adopts() -> None:
    document = read(golden("adopt-hello"), "sandbox")
    assert to_definition(document) is None
    assert to_deployment(document).selector == {"app": "hello"}


def test_processes_roll_as_well() -> None:
    version = definition_of(golden("gatewayd"), "infra")
    process = version.containers[0].process
    assert process is not None and process.start == "./start"


def test_the_strategy_has_the_documented_defaults() -> None:
    raw = deployment()
    del raw["spec"]["strategy"]
    assert to_deployment(read(raw)).strategy == Strategy(max_unavailable=1, max_surge=1, order="CreateFirst")


@pytest.mark.parametrize("spelling", ["maxUnavilable", "maxUnavailable", "MaxUnavailable"])
def test_both_spellings_of_max_unavailable_are_taken(spelling: str) -> None:
    given: dict[str, Any] = {spelling: 3}
    assert to_deployment(read(deployment(**given))).strategy.max_unavailable == 3
    assert ROLLING + ".maxUnavailable" in problems_of(deployment(maxUnavilable=1, maxUnavailable=1))


def test_what_is_ours_is_taken() -> None:
    ours: dict[str, Any] = {"minReadySeconds": 2.5, "stepTimeoutSeconds": 60, "onFailure": "rollback"}
    strategy = to_deployment(read(deployment(**ours, canary={"instances": 1, "holdSeconds": 30}))).strategy
    assert (strategy.min_ready, strategy.step_timeout, strategy.on_failure) == (2.5, 60.0, "rollback")
    assert strategy.canary == Canary(instances=1, hold=30.0)
    manual = to_deployment(read(deployment(canary={"instances": 2, "manual": True}))).strategy.canary
    assert manual == Canary(instances=2, manual=True)


def test_the_document_is_kept_once_with_its_defaults() -> None:
    raw = deployment()
    record, version = to_deployment(read(raw)), definition_of(raw)
    kept = json.loads(record.raw)
    assert version.raw == ""
    assert kept["metadata"]["namespace"] == "shop" and kept["restartPolicy"]["policy"] == "OnFailure"
    assert kept["spec"]["strategy"]["rollingupdate"]["rollingOrder"] == "CreateFirst"
    assert kept["spec"]["instance"] is None, "the record has the number"
    kept["spec"]["instance"] = record.instances
    assert read(kept) == read(raw)


def test_an_update_may_leave_the_number_out() -> None:
    raw = deployment()
    del raw["spec"]["instance"]
    document = read(raw, present=Present(7))
    assert to_deployment(document).instances == 0, "the core knows the number by then"
    raw["spec"]["strategy"]["rollingupdate"]["canary"] = {"instances": 8, "manual": True}
    assert problems_of(raw, present=Present(7)).keys() == {ROLLING + ".canary.instances"}
    del raw["spec"]["strategy"]
    assert problems_of(raw).keys() == {"$.spec.instance"}


# --- what is refused ------------------------------------------------------------------------------------------


def test_recreate_is_refused_with_what_to_do_instead() -> None:
    raw = deployment()
    raw["spec"]["strategy"]["type"] = "Recreate"
    assert "DeleteFirst" in problems_of(raw)["$.spec.strategy.type"]
    raw["spec"]["strategy"]["type"] = "RolingUpdate"
    assert problems_of(raw)["$.spec.strategy.type"].endswith("did you mean RollingUpdate?")


@pytest.mark.parametrize(
    ("rolling", "path"),
    [
        ({"maxSurge": 0, "maxUnavailable": 0}, "maxSurge"),
        ({"maxSurge": -1}, "maxSurge"),
        ({"rollingOrder": "createFirst"}, "rollingOrder"),
        ({"upgradeDuration": -1}, "upgradeDuration"),
        ({"onFailure": "panic"}, "onFailure"),
        ({"minReadySeconds": 30, "stepTimeoutSeconds": 30}, "minReadySeconds"),
        ({"canary": {"instances": 3, "manual": True}}, "canary.instances"),
        ({"canary": {"instances": 0, "manual": True}}, "canary.instances"),
        ({"canary": {"manual": True}}, "canary.instances"),
        ({"canary": {"instances": 1}}, "canary.holdSeconds"),
        ({"canary": {"instances": 1, "manual": True, "holdSeconds": 5}}, "canary.manual"),
        ({"canary": []}, "canary"),
        ({"maxUnavailible": 1}, "maxUnavailible"),
    ],
)
def test_a_strategy_that_cannot_work_is_refused(rolling: dict[str, Any], path: str) -> None:
    assert problems_of(deployment(**rolling)).keys() == {f"{ROLLING}.{path}"}


@pytest.mark.parametrize("place", ["spec", "strategy"])
def test_what_stands_at_the_wrong_place_is_told_the_right_one(place: str) -> None:
    raw = deployment()
    owner = raw["spec"] if place == "spec" else raw["spec"]["strategy"]
    owner["minReadySeconds"] = 5
    (message,) = problems_of(raw).values()
    assert message.endswith("spec.strategy.rollingupdate")


def test_what_has_no_effect_is_refused() -> None:
    raw = {**deployment(), "updatePolicy": {"maxUnavailable": 1}}
    raw["spec"]["pauseDeployment"] = True
    assert problems_of(raw).keys() == {"$.updatePolicy", "$.spec.pauseDeployment"}
    raw = {**deployment(), "updatePolicy": {}}
    raw["spec"]["pauseDeployment"] = False
    assert read(raw).metadata.name == "front"


def test_a_template_holds_containers_or_processes() -> None:
    raw = deployment()
    pod = raw["spec"]["template"]["spec"]
    pod["processes"] = [{"procName": "p", "startCmd": "run"}]
    assert problems_of(raw)[f"{TASKS}.processes"].startswith("excludes containers")
    pod["containers"] = []
    assert read(raw).spec.template is not None
    pod["processes"] = []
    assert f"{TASKS}.containers" in problems_of(raw)


def test_adoption_needs_a_selector_and_takes_nothing_else() -> None:
    raw = deployment()
    del raw["spec"]["template"]
    assert "$.spec.template" not in (raw["spec"] or {})
    assert read(raw).spec.template is None
    raw["killPolicy"] = {"gracePeriod": 9}
    assert problems_of(raw).keys() == {"$.killPolicy"}
    del raw["killPolicy"]
    raw["spec"]["selector"] = {}
    assert problems_of(raw).keys() == {"$.spec.template"}


def test_an_update_needs_a_template() -> None:
    raw = deployment()
    raw["spec"]["template"] = None
    assert problems_of(raw, present=Present(2)).keys() == {"$.spec.template"}


@pytest.mark.parametrize("raw", [None, [], 3, {}, {"kind": "deployment"}, {"kind": "deployment", "spec": None}])
def test_rubbish_is_refused_and_breaks_nothing(raw: object) -> None:
    assert problems_of(raw)


def test_null_elements_and_wrong_namespaces_are_named() -> None:
    raw = deployment()
    raw["spec"]["template"]["spec"]["containers"].append(None)
    raw["metadata"]["namespace"] = "other"
    assert {f"{TASKS}.containers[1]", "$.metadata.namespace"} <= problems_of(raw).keys()


def test_a_name_leaves_room_for_the_names_of_updates() -> None:
    raw = deployment()
    raw["metadata"]["name"] = "a" * NAME_LENGTH
    assert read(raw).metadata.name
    raw["metadata"]["name"] += "a"
    assert problems_of(raw).keys() == {"$.metadata.name"}
