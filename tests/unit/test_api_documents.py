"""User documents: what is accepted becomes the right Version; everything wrong is reported at once, with its path."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcs_scheduler.api.documents.agents import read_extended_resource, read_settings, read_taints
from bcs_scheduler.api.documents.convert import to_version
from bcs_scheduler.api.documents.names import LABEL_KEY
from bcs_scheduler.api.documents.validate import read_application
from bcs_scheduler.api.http import body
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.api.reading.query import parse_selector
from bcs_scheduler.wire import quantities
from bcs_scheduler.wire.problems import Problems
from bcs_scheduler.wire.quantities import QuantityError, cores, memory, storage
from store.records import Version
from store.records.definition import Amounts, Constraint, Item, Port, Reference, Toleration
from tests.unit.api_support import document

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "applications"
EXAMPLES = ROOT / "conf" / "examples"
CONTAINER = "$.spec.template.spec.containers[0]"


def load(path: Path) -> Any:
    return json.loads(path.read_text())


def version_of(raw: Any, namespace: str = "shop") -> Version:
    read = read_application(raw, namespace=namespace, creating=True, problems=Problems("Warn"))
    return to_version(read, 0)


def problems_of(raw: Any, namespace: str = "shop", **more: Any) -> dict[str, str]:
    """Message by path of everything that is wrong."""
    with pytest.raises(ApiError) as refused:
        read_application(raw, namespace=namespace, **{"creating": True, **more})
    assert refused.value.failure.status == 422
    return {problem.path: problem.message for problem in refused.value.problems}


# --- the specification's examples -----------------------------------------------------------------------------


def golden(name: str) -> Any:
    return load(GOLDEN / f"{name}.json")


@pytest.mark.parametrize("name", ["hello", "lobby", "matchmaker", "trainer"])
def test_examples_of_the_original_are_accepted(name: str) -> None:
    raw = golden(name)
    version = version_of(raw, raw["metadata"]["namespace"])
    assert (version.namespace, version.application) == (raw["metadata"]["namespace"], name)
    assert version.instances == raw["spec"]["instance"]
    assert version.restart_policy.policy == raw["restartPolicy"]["policy"]
    assert version.kill_policy.grace_period == raw["killPolicy"]["gracePeriod"]


def test_a_shutdown_delay_is_read_and_has_bounds() -> None:
    raw = golden("hello")
    raw["killPolicy"] = {"gracePeriod": 5, "shutdownDelaySeconds": 3600}
    policy = version_of(raw, raw["metadata"]["namespace"]).kill_policy
    assert (policy.grace_period, policy.shutdown_delay) == (5.0, 3600.0)
    for wrong in (-1, 3601, 1.5, "5"):
        raw["killPolicy"]["shutdownDelaySeconds"] = wrong
        assert problems_of(raw, raw["metadata"]["namespace"]).keys() == {"$.killPolicy.shutdownDelaySeconds"}


def test_an_example_becomes_the_version_it_describes() -> None:
    raw = golden("matchmaker")
    version = version_of(raw, "arena")
    assert version.constraints == (
        (Constraint(name="hostname", operator="MAXPER", limit=2),),
        (Constraint(name="zone", operator="GROUPBY", items=("east-1", "east-2", "west-1")),),
        (Constraint(name="label", operator="EXCLUDE", items=("tier:database",)),),
        (
            Constraint(name="disk-type", operator="LIKE", items=("ssd*",)),
            Constraint(name="free-ips", operator="GREATER", number=3.0),
        ),
    )
    only = version.containers[0]
    assert only.requests == Amounts(cpus=1000, mem=512_000, disk=100_000)
    assert only.limits == Amounts(cpus=2000, mem=768_000)
    assert only.ports == (Port(name="game", protocol="udp"), Port(name="admin", protocol="http"))
    assert [(v.name, v.value, v.resource) for v in only.env] == [
        ("SLOT", "${bcs.instanceid}", ""),
        ("HOST_ADDR", "$BCS_NODE_IP", ""),
        ("CPU_MILLI", "", "limits.cpu"),
    ]
    check = only.health_checks[0]
    assert (check.type, check.port_name, check.path, check.interval, check.consecutive_failures) == (
        "HTTP", "admin", "/live", 15.0, 4,
    )  # fmt: skip
    assert [check.type for check in only.health_checks] == ["HTTP", "REMOTE_TCP"]
    assert (only.image_pull_user, only.image_pull_password) == (
        "secret::registry-login||user", "secret::registry-login||password",
    )  # fmt: skip
    assert only.parameters == (("ulimit", "nofile=65535"), ("shm-size", "256"))
    settings_file = Item(type="file", key="mm.toml", target="/etc/mm/mm.toml", mode=0o444, user="root")
    region = Item(type="env", key="region", target="MM_REGION")
    assert only.configmaps == (Reference(name="mm-settings", items=(settings_file, region)),)
    token = Item(type="env", key="api-token", target="MM_TOKEN")
    assert only.secrets == (Reference(name="mm-keys", items=(token,)),)
    assert version.restart_policy.host_retain == 120.0 and version.restart_policy.max_times == 6
    assert version.pod_labels == {"app": "matchmaker", "tier": "backend"}


def test_a_toleration_is_no_predicate_wherever_it_stands() -> None:
    version = version_of(golden("lobby"), "arena")
    assert version.tolerations == (Toleration(key="dedicated", value="arena"),)
    assert version.constraints == ((Constraint(name="hostname", operator="UNIQUE"),),)


@pytest.mark.parametrize("name", ["web", "constrained"])
def test_shipped_examples_are_accepted(name: str) -> None:
    version = version_of(load(EXAMPLES / f"{name}.json"), "default")
    assert version.instances in (3, 5) and version.containers[0].requests.cpus in (50, 100)


def test_the_shipped_update_is_another_version_of_the_same_application() -> None:
    first = version_of(load(EXAMPLES / "web.json"), "default")
    second = version_of(load(EXAMPLES / "web-v2.json"), "default")
    assert (first.key, first.containers[0].env[0].value) == (second.key, "v1")
    assert second.containers[0].env[0].value == "v2"


def test_an_update_without_a_number_keeps_the_stored_one() -> None:
    raw = document()
    del raw["spec"]["instance"]
    read = read_application(raw, namespace="shop", creating=False)
    assert to_version(read, 7).instances == 7


def test_the_stored_document_makes_the_same_version_again() -> None:
    first = version_of(load(EXAMPLES / "constrained.json"), "default")
    again = version_of(json.loads(first.raw), "default")
    assert again == first


# --- problems -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        (0.1 + 0.2, 1024 / 3, Amounts(cpus=301, mem=341_334)),
        ("0.30000000000000004", "341.3333333333333", Amounts(cpus=301, mem=341_334)),
        ("0.5m", "0.1Ki", Amounts(cpus=1, mem=1)),
        (1 / 3, 0.7 * 100, Amounts(cpus=334, mem=70_000)),
    ],
)
def test_amounts_from_arithmetic_are_rounded_up_to_the_unit(cpu: Any, memory: Any, expected: Amounts) -> None:
    assert (quantities.cores(cpu), quantities.memory(memory)) == (expected.cpus, expected.mem)


def test_all_problems_are_reported_at_once() -> None:
    raw = document(porst=[], healthChecks=[{"type": "HTTP", "intervalSeconds": 5, "timeoutSeconds": 5, "http": {}}])
    raw["metadata"]["name"] = "Web.1"
    raw["restartPolicy"] = {"policy": "Onfailure", "maxTimes": -1}
    raw["spec"]["instance"] = -1
    assert problems_of(raw).keys() == {
        "$.metadata.name",
        "$.restartPolicy.policy",
        "$.restartPolicy.maxTimes",
        "$.spec.instance",
        f"{CONTAINER}.porst",
        f"{CONTAINER}.healthChecks[0].intervalSeconds",
        f"{CONTAINER}.healthChecks[0].http.portName",
    }


@pytest.mark.costs
@pytest.mark.parametrize(
    "body_",
    [
        json.dumps({f"instanc{n}": 1 for n in range(60_000)}),
        json.dumps({"." * 900_000: 1}),
        json.dumps({"metadata": {"labels": {"[" * 900_000: 1}}}),
        json.dumps({"restartPolicy": {"policy": "OnFailur" * 100_000}}),
        "{" + ",".join(f'"k{n}":1' for n in range(60_000)) + ',"k59999":2}',
        json.dumps({"spec": {"template": {"spec": {"containers": [{f"nam{n}": 1 for n in range(900)}] * 60}}}}),
    ],
    ids=lambda text: text[:12],
)
def test_nothing_a_user_sends_is_judged_for_long(body_: str) -> None:
    """Judging holds up every other request. Each of these took ten seconds and more while paths, hints or doubled keys
    were looked at in the obvious way."""
    began = time.process_time()
    with pytest.raises(ApiError):
        read_application(body.parse(body_.encode()), namespace="shop", creating=True)
    assert time.process_time() - began < 4.0


def test_unknown_fields_and_values_come_with_a_hint() -> None:
    raw = document(porst=[])
    raw["restartPolicy"] = {"policy": "onfailure"}
    raw["constraint"] = {"intersectionItem": [{"unionData": [{"name": "zone", "operate": "CLUSTR"}]}]}
    found = problems_of(raw)
    assert found[f"{CONTAINER}.porst"].endswith("did you mean ports?")
    assert found["$.restartPolicy.policy"].endswith("did you mean OnFailure?")
    assert found["$.constraint.intersectionItem[0].unionData[0].operate"].endswith("did you mean CLUSTER?")


@pytest.mark.parametrize("raw", [None, [], 3, "text", True])
def test_a_body_that_is_no_object_is_a_problem_of_the_root(raw: object) -> None:
    assert problems_of(raw).keys() == {"$"}


def test_other_kinds_are_named_instead_of_listing_their_fields() -> None:
    raw = {**document(), "kind": "deployment", "spec": {"strategy": {}}}
    assert list(problems_of(raw)) == ["$.kind"]


@pytest.mark.parametrize("name", ["Web", "we.b", "1web", "web-", "", "w" * 64, "wéb", "web\n", "a_b"])
def test_names_that_would_break_ids_are_refused(name: str) -> None:
    raw = document()
    raw["metadata"]["name"] = name
    assert problems_of(raw).keys() == {"$.metadata.name"}


def test_the_namespace_of_the_path_counts() -> None:
    raw = document(namespace="")
    assert version_of(raw).namespace == "shop"
    assert problems_of(document(namespace="other")).keys() == {"$.metadata.namespace"}
    assert problems_of(document(), name="else").keys() == {"$.metadata.name"}
    assert version_of(document(namespace="defaultGroup"), "defaultGroup").namespace == "defaultGroup"


def test_misspelt_and_differently_cased_names_of_the_original_are_accepted() -> None:
    raw = document()
    raw["restartpolicy"] = {"Policy": "Never", "maxTimes": 3}
    raw["updatePolicy"] = {"maxUnavilable": 4}
    raw["spec"]["template"]["spec"]["networkType"] = "CNI"
    version = version_of(raw)
    assert (version.restart_policy.policy, version.restart_policy.max_times) == ("Never", 3)
    assert (version.max_unavailable, version.network_type) == (4, "cni")


def test_one_field_given_in_two_spellings_is_a_problem() -> None:
    raw = document()
    raw["updatePolicy"] = {"maxUnavilable": 4, "maxUnavailable": 5}
    assert problems_of(raw).keys() == {"$.updatePolicy.maxUnavailable"}


def test_null_is_absent_but_null_elements_are_problems() -> None:
    raw = document(env=None, args=["a", None])
    assert problems_of(raw) == {f"{CONTAINER}.args[1]": "must be a string, not null"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("privileged", True),
        ("hostname", "web"),
        ("imagePullUser", "me"),
        ("imagePullPasswd", "secret::login||key"),
    ],
)
def test_what_needs_an_image_is_refused_without_one(field: str, value: Any) -> None:
    assert f"{CONTAINER}.{field}" in problems_of(document(**{field: value}))


def test_values_that_ask_for_nothing_are_let_through() -> None:
    raw = document(configmaps=[], secrets=None, privileged=False, parameters=[], hostname="")
    raw["spec"]["selector"] = {}
    raw["constraint"] = {"nodeSelector": {}}
    assert version_of(raw).application == "web"


def test_node_selectors_are_refused_with_what_to_use() -> None:
    raw = document()
    raw["constraint"] = {"nodeSelector": {"zone": "a"}}
    raw["spec"]["template"]["spec"]["nodeSelector"] = {"zone": "a"}
    found = problems_of(raw)
    assert found.keys() == {"$.constraint.nodeSelector", "$.spec.template.spec.nodeSelector"}
    assert all("intersectionItem" in message for message in found.values())


# --- constraints ----------------------------------------------------------------------------------------------

UNION = "$.constraint.intersectionItem[0].unionData"


@pytest.mark.parametrize(
    ("datum", "path"),
    [
        ({"name": "zone", "operate": "UNIQUE", "type": 3, "text": {"value": "a"}}, ".text"),
        ({"name": "zone", "operate": "UNIQUE", "type": 3}, ".type"),
        ({"name": "zone", "operate": "MAXPER"}, ".text"),
        ({"name": "zone", "operate": "MAXPER", "type": 3, "text": {"value": "0"}}, ".text.value"),
        ({"name": "zone", "operate": "MAXPER", "type": 3, "text": {"value": "2.5"}}, ".text.value"),
        ({"name": "zone", "operate": "MAXPER", "type": 1, "scalar": {"value": 2}}, ".scalar"),
        ({"name": "zone", "operate": "CLUSTER", "type": 1, "scalar": {"value": 2}}, ".scalar"),
        ({"name": "zone", "operate": "CLUSTER", "type": 4, "text": {"value": "a"}}, ".type"),
        ({"name": "zone", "operate": "CLUSTER", "text": {"value": ""}}, ".text.value"),
        ({"name": "zone", "operate": "LIKE", "text": {"value": "re:("}}, ".text.value"),
        ({"name": "zone", "operate": "LIKE", "set": {"item": ["ok*", "re:["]}}, ".set.item[1]"),
        ({"name": "zone", "operate": "GROUPBY", "type": 4, "set": {"item": []}}, ".set.item"),
        ({"name": "zone", "operate": "GROUPBY", "type": 4, "set": {"item": ["a", "a"]}}, ".set.item[1]"),
        ({"name": "label", "operate": "EXCLUDE", "type": 4, "set": {"item": ["app"]}}, ".set.item[0]"),
        ({"name": "slots", "operate": "GREATER", "type": 3, "text": {"value": "3"}}, ".text"),
        ({"name": "slots", "operate": "GREATER", "type": 1, "scalar": {"value": "3"}}, ".scalar.value"),
        ({"name": "", "operate": "UNIQUE"}, ".name"),
        ({"name": "zone", "operate": "unique"}, ".operate"),
        ({"name": "zone"}, ".operate"),
        ({"operate": "TOLERATION", "text": {"value": "x"}}, ".name"),
    ],
)  # fmt: skip
def test_constraints_that_could_not_do_what_they_say_are_refused(datum: dict[str, Any], path: str) -> None:
    raw = document()
    raw["constraint"] = {"intersectionItem": [{"unionData": [datum]}]}
    assert f"{UNION}[0]{path}" in problems_of(raw)


def test_an_empty_union_is_refused() -> None:
    raw = document()
    raw["constraint"] = {"intersectionItem": [{"unionData": []}]}
    assert problems_of(raw).keys() == {UNION}


# --- containers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"ports": [{"name": "a"}, {"name": "a"}]}, ".ports[1].name"),
        ({"ports": [{"name": ""}]}, ".ports[0].name"),
        ({"ports": [{"name": "a b"}]}, ".ports[0].name"),
        ({"ports": [{"name": "a\n"}]}, ".ports[0].name"),
        ({"ports": [{"name": "a" * 64}]}, ".ports[0].name"),
        (
            {"ports": [{"name": "a", "containerPort": 80}, {"name": "b", "containerPort": 80}]},
            ".ports[1].containerPort",
        ),
        ({"ports": [{"name": "a", "containerPort": 80}, {"name": "b", "hostPort": 80}]}, ".ports[1].hostPort"),
        ({"ports": [{"name": "a", "containerPort": 80, "hostPort": 81}]}, ".ports[0].hostPort"),
        ({"ports": [{"name": "a", "hostPort": 65536}]}, ".ports[0].hostPort"),
        ({"ports": [{"name": "a", "hostPort": -1}]}, ".ports[0].hostPort"),
        ({"ports": [{"name": "a", "protocol": "sctp"}]}, ".ports[0].protocol"),
        ({"ports": [{"name": "a", "hostIP": "10.0.0.1"}]}, ".ports[0].hostIP"),
        ({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, ".env[1].name"),
        ({"env": [{"name": "A=B"}]}, ".env[0].name"),
        (
            {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limit.cpu"}}}]},
            ".env[0].valueFrom.resourceFieldRef.resource",
        ),
        ({"command": ""}, ".command"),
        ({"resources": {"limits": {"cpu": "0"}}}, ".resources.limits.cpu"),
        ({"resources": {"limits": {"cpu": "-1"}}}, ".resources.limits.cpu"),
        ({"resources": {"limits": {"cpu": "1e6"}}}, ".resources.limits.cpu"),
        ({"resources": {"limits": {"cpu": 5000}}}, ".resources.limits.cpu"),
        ({"resources": {"limits": {"memory": "12X"}}}, ".resources.limits.memory"),
        ({"resources": {"limits": {"memory": True}}}, ".resources.limits.memory"),
        ({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}, ".resources.requests.cpu"),
        ({"resources": {"extendedResources": [{"Name": "gpu", "Value": 0}]}}, ".resources.extendedResources[0].Value"),
        ({"healthChecks": [{"type": "TCP", "tcp": {"portName": "htp"}}]}, ".healthChecks[0].tcp.portName"),
        ({"healthChecks": [{"type": "TCP"}]}, ".healthChecks[0].tcp"),
        ({"healthChecks": [{"type": "TCP", "tcp": {"port": 1}, "http": {"path": "/x"}}]}, ".healthChecks[0].http"),
        ({"healthChecks": [{"type": "TPC", "tcp": {"port": 1}}]}, ".healthChecks[0].type"),
        ({"healthChecks": [{"type": "TCP", "tcp": {"port": 1}}] * 2}, ".healthChecks[1]"),
        ({"volumes": [{"volume": {"mountPath": "/data"}}]}, ".volumes[0].volume"),
        (
            {"image": "x", "volumes": [{"volume": {"mountPath": "/a"}}, {"volume": {"mountPath": "/a/"}}]},
            ".volumes[1].volume.mountPath",
        ),
        ({"uris": [{"value": "no-url"}]}, ".uris[0].value"),
        ({"uris": [{"value": "http://x/y", "output": "../z"}]}, ".uris[0].output"),
    ],
)
def test_problems_of_containers(fields: dict[str, Any], path: str) -> None:
    assert f"{CONTAINER}{path}" in problems_of(document(**fields))


def test_port_names_and_host_ports_are_unique_across_containers() -> None:
    raw = document(ports=[{"name": "a", "containerPort": 80}])
    first = raw["spec"]["template"]["spec"]["containers"][0]
    raw["spec"]["template"]["spec"]["containers"].append(copy.deepcopy(first))
    second = "$.spec.template.spec.containers[1]"
    assert problems_of(raw).keys() == {f"{second}.ports[0].name", f"{second}.ports[0].containerPort"}


def test_ports_need_host_networking() -> None:
    raw = document()
    raw["spec"]["template"]["spec"]["networkMode"] = "NONE"
    assert problems_of(raw).keys() == {f"{CONTAINER}.ports[0]"}


def test_defaults_of_resources_are_per_resource() -> None:
    def requests(resources: dict[str, Any]) -> Amounts:
        return version_of(document(resources=resources)).containers[0].requests

    assert requests({}) == Amounts(cpus=1000, mem=64_000, disk=0)
    assert requests({"limits": {"cpu": "0.5"}, "requests": {"memory": 256}}) == Amounts(cpus=500, mem=256_000, disk=0)


@pytest.mark.parametrize(
    ("reader", "written", "expected"),
    [
        (cores, "0.5", 500), (cores, "500m", 500), (cores, 2, 2000), (cores, 0.1, 100), (cores, "1.234", 1234),
        (memory, "512", 512_000), (memory, "2Gi", 2_048_000), (memory, "64Mi", 64_000), (memory, "1G", 953_675),
        (memory, "1048576K", 1_000_000), (storage, "0", 0), (storage, "1Ti", 1_048_576_000),
    ],
)  # fmt: skip
def test_amounts_are_read_exactly(reader: Any, written: Any, expected: int) -> None:
    assert reader(written) == expected


@pytest.mark.parametrize("written", ["", "abc", "1.2.3", "0x10", "1e3", "-1", "1 Gi", "٣", "1m", "NaN", "inf", 1e30])
def test_garbage_is_no_amount(written: Any) -> None:
    with pytest.raises(QuantityError):
        memory(written)


@pytest.mark.parametrize("written", ["1Gi", "0", 4097])
def test_impossible_cores(written: Any) -> None:
    with pytest.raises(QuantityError):
        cores(written)


# --- agent settings -------------------------------------------------------------------------------------------


def test_agent_settings_are_checked() -> None:
    with pytest.raises(ApiError) as refused:
        read_settings([{"innerIP": ""}, {"innerIP": "a", "strings": {"zone": "z1"}}, {"innerIP": "a"}])
    assert {p.path for p in refused.value.problems} == {"$[0].innerIP", "$[1].strings.zone", "$[2].innerIP"}
    with pytest.raises(ApiError) as refused:
        read_taints([{"innerIP": "a", "noSchedule": {"key": ""}}])
    assert {p.path for p in refused.value.problems} == {"$[0].noSchedule.key"}
    with pytest.raises(ApiError) as refused:
        read_extended_resource({"Name": "x", "Capacity": -1})
    assert {p.path for p in refused.value.problems} == {"$.Capacity", "$.InnerIP"}


# --- anything at all ------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += _places(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            found += _places(inner, (*path, i))
    return found


FULL = golden("matchmaker")
PLACES = [place for place in _places(FULL) if place]


@settings(max_examples=300, deadline=None)
@given(place=st.sampled_from(PLACES), value=JSON)
def test_anything_anywhere_is_accepted_or_refused_with_a_path(place: tuple[Any, ...], value: Any) -> None:
    raw = copy.deepcopy(FULL)
    target = raw
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    try:
        version = version_of(raw, "arena")
    except ApiError as refused:
        assert refused.failure.status == 422
        assert all(problem.path.startswith("$") and problem.message for problem in refused.problems)
    else:
        assert version.containers


@settings(max_examples=200, deadline=None)
@given(value=JSON)
def test_any_json_is_read_as_agent_settings_or_refused(value: Any) -> None:
    for reader in (read_settings, read_taints, read_extended_resource):
        try:
            reader(value)
        except ApiError as refused:
            assert refused.failure.status == 422 and refused.problems


@settings(max_examples=300, deadline=None)
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_parsed_or_refused(content: bytes) -> None:
    try:
        value = body.parse(content)
    except ApiError as refused:
        assert refused.failure.status == 400
    else:
        assert json.loads(content.decode("utf-8-sig")) == value


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "line 1, column 1"),
        (b'{"a": 1,\n "b" 2}', "line 2, column 6"),
        (b'{"b": {"a": 1, "a": 2}}', "'a' occurs twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": 1e400}', "out of range"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a": "\xff"}', "byte 7"),
        (b'"\\ud800"', "lone surrogate"),
        (b"[" * 100_000, "nested more than 64 levels deep"),
    ],
)
def test_broken_json_says_where(content: bytes, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        body.parse(content)
    assert refused.value.failure.status == 400
    assert words in refused.value.message


@pytest.mark.parametrize("key", ["a b", "-a", "a_", "a!", "über", "a,b", "a=b", "(a)", "a\n"])
def test_a_label_whose_key_no_selector_reads_is_refused(key: str) -> None:
    """Annotations are not selected, so their keys are any text."""
    raw = document()
    raw["metadata"]["annotations"] = {key: "x"}
    version_of(raw)
    for part, path in ((raw["metadata"], "$.metadata"), (raw["spec"]["template"], "$.spec.template.metadata")):
        holder = part if path == "$.metadata" else part.setdefault("metadata", {})
        holder["labels"] = {key: "x"}
        with pytest.raises(ApiError) as refused:
            version_of(raw)
        assert [each.path.startswith(path) for each in refused.value.problems] == [True]
        del holder["labels"]


@settings(max_examples=50)
@given(st.from_regex(LABEL_KEY, fullmatch=True))
def test_a_selector_reads_every_key_of_labels(key: str) -> None:
    assert [one.key for one in parse_selector(f"{key}=x,!{key},{key} in (x)")] == [key] * 3
