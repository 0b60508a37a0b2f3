"""Documents of the original (tests/documents) become what the original would run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.api.documents.commands import read_command
from bcs_scheduler.api.documents.convert import to_version
from bcs_scheduler.api.documents.deployment import read_deployment, to_deployment
from bcs_scheduler.api.documents.validate import read_application
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.api.objects.services import read_service
from bcs_scheduler.wire.normal import complete
from bcs_scheduler.wire.problems import Problems
from offers.rules.constraints import Rule
from store.records import Version
from store.records.definition import Container

FOLDER = Path(__file__).parent.parent / "documents"


def document(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


def version(name: str) -> Version:
    read = read_application(document(name), namespace="sandbox", creating=True, problems=Problems("Warn"))
    return to_version(read, 0)


def container(name: str) -> Container:
    return version(name).containers[0]


def test_a_file_in_a_directory_is_called_by_its_alias_and_a_variable_without_name_too() -> None:
    targets = [item.target for item in container("application-alias-and-sub-path").configmaps[0].items]
    assert targets == ["/etc/app/main.conf", "/etc/region", "AREA"]


def test_items_of_secrets_have_aliases_and_sub_paths_too() -> None:
    targets = [item.target for item in container("application-alias-of-secrets").secrets[0].items]
    assert targets == ["/etc/keys/web", "/etc/keys/token", "TOKEN"]


def test_an_alias_without_a_directory_changes_nothing() -> None:
    assert container("application-alias-without-directory").configmaps[0].items[0].target == "/etc/app.conf"


def test_sub_path_goes_before_the_alias() -> None:
    raw = document("application-alias-and-sub-path")
    item = raw["spec"]["template"]["spec"]["containers"][0]["configmaps"][0]["items"][0]
    item["subPath"] = "inner/sub.conf"
    read = read_application(raw, namespace="sandbox", creating=True)
    assert to_version(read, 0).containers[0].configmaps[0].items[0].target == "/etc/app/inner/sub.conf"


def test_items_of_other_types_inject_nothing() -> None:
    taken = container("application-items-of-another-type").configmaps
    assert [(reference.name, [item.target for item in reference.items]) for reference in taken] == [
        ("settings", ["REGION"])
    ]


def test_older_forms_of_health_checks_are_checks() -> None:
    check = container("application-old-health-checks").health_checks[0]
    assert (check.type, check.path, check.port_name, check.interval) == ("HTTP", "/live", "web", 30.0)
    command = container("application-old-command-check").health_checks[0]
    assert (command.type, command.command) == ("COMMAND", "/bin/check")


def test_a_check_takes_the_part_of_its_own_type() -> None:
    check = container("application-of-the-console").health_checks[0]
    assert (check.type, check.port_name, check.path) == ("TCP", "web", "/")


def test_the_first_local_check_is_kept() -> None:
    assert [check.type for check in container("application-second-local-check").health_checks] == ["TCP"]


def test_unknown_parameters_do_not_reach_the_executor() -> None:
    assert container("application-unknown-parameter").parameters == ()


def test_words_without_effect_are_replaced() -> None:
    assert version("application-network-type-bridge").network_type == ""
    assert container("application-host-name-in-host-network").hostname == ""
    assert container("application-other-words").image_pull_policy == "IfNotPresent"


def test_ports_without_effect_are_left_out_or_corrected() -> None:
    assert [(p.container_port, p.host_port) for p in container("application-host-network-two-ports").ports] == [
        (8080, 8080)
    ]
    assert [(p.container_port, p.host_port) for p in container("application-ports-without-network").ports] == [
        (8080, -1)
    ]
    assert [p.host_port for p in container("process-negative-host-port").ports] == [0]


def test_a_repeated_item_counts_once() -> None:
    assert version("application-repeated-set-items").constraints[0][0].items == ("z1", "z2")


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("^z(1|2)$", ["z1", "z2"], ["z3", "az1", "z12"]),
        ("rack[0-9]+", ["rack7", "a-rack12-b"], ["rack", "rackx"]),
        ("a.*b", ["ab", "xaxbx"], ["ba"]),
        (r"10\.1\.1\.1", ["10.1.1.1", "110.1.1.12"], ["10x1y1z1"]),
        ("a|b", ["a", "xbx"], ["c"]),
        ("(?i)SSD", ["ssd", "an SSD"], ["hdd"]),
        ("ssd*", ["ssd", "ssd-nvme"], ["an ssd", "ss"]),
        ("zone1", ["zone1", "a-zone12"], ["zone2"]),
        ("re:z[0-9]", ["z1"], ["z12", "az1"]),
    ],
)
def test_patterns_are_expressions_found_anywhere_or_globs_over_the_whole_value(
    pattern: str, fitting: list[str], others: list[str]
) -> None:
    for operator, admitted, refused in (("LIKE", fitting, others), ("UNLIKE", others, fitting)):
        raw = document("application-regular-expressions")
        raw["constraint"]["intersectionItem"][0]["unionData"][0] |= {"operate": operator, "set": {"item": [pattern]}}
        read = read_application(raw, namespace="sandbox", creating=True, problems=Problems("Warn"))
        made = to_version(read, 0)
        constraint = made.constraints[0][0]
        rule = Rule(constraint.name, constraint.operator, constraint.items)
        assert all(map(rule.admits, admitted)), operator
        assert not any(map(rule.admits, refused)), operator


@pytest.mark.parametrize(
    ("pattern", "position"), [("z(?=1)", 2), ("a{1001}", 2), ("z[b-a]+", 3), (r"abc\8", 4), ("re:x(a", 1)]
)
def test_an_expression_that_re2_cannot_compile_is_refused_with_its_position(pattern: str, position: int) -> None:
    raw = document("application-regular-expressions")
    raw["constraint"]["intersectionItem"][0]["unionData"][0]["set"] = {"item": [pattern]}
    with pytest.raises(ApiError) as refused:
        read_application(raw, namespace="sandbox", creating=True, problems=Problems("Ignore"))
    assert f"at character {position}" in refused.value.problems[0].message


def test_the_payload_that_is_not_blank_is_read() -> None:
    unions = version("application-all-payloads-of-a-constraint").constraints
    assert [(union[0].operator, union[0].items) for union in unions] == [("UNIQUE", ()), ("CLUSTER", ("z1",))]


def test_zero_asks_for_what_leaving_out_asks_for() -> None:
    assert container("application-zero-resources").requests == container("application-no-resources").requests
    assert container("application-no-resources").requests.disk == 0
    assert container("application-no-resources").limits.cpus == 0


def test_a_strategy_without_a_step_makes_steps_of_one() -> None:
    read = read_deployment(document("deployment-no-step"), namespace="sandbox", problems=Problems("Warn"))
    strategy = to_deployment(read).strategy
    assert (strategy.max_unavailable, strategy.max_surge) == (1, 1)
    read = read_deployment(document("deployment-no-unavailable"), namespace="sandbox", problems=Problems("Warn"))
    assert to_deployment(read).strategy.max_unavailable == 0


def test_an_address_as_a_text_is_a_list_of_one() -> None:
    service = read_service(document("service-of-the-console"), "sandbox", problems=Problems("Warn"))
    assert service.cluster_ip == ("10.3.0.1",)


def test_the_normal_form_resolves_older_forms() -> None:
    made, problems = complete(document("application-old-health-checks"))
    check = made["spec"]["template"]["spec"]["containers"][0]["healthChecks"][0]
    assert problems == () and check["type"] == "HTTP" and check["http"]["path"] == "/live"


SILENT: dict[str, tuple[Callable[[str], Any], Any]] = {
    "deployment-no-strategy": (
        lambda name: to_deployment(read_deployment(document(name), namespace="sandbox")).strategy.order,
        "CreateFirst",
    ),
    "application-health-checks": (lambda name: times(container(name)), [(5, 30, 15, 3), (10, 300, 60, 5)]),
    "process-every-command": (lambda name: times(container(name)), [(10, 300, 60, 20)]),
    "application-image-never": (lambda name: container(name).image_pull_policy, "Never"),
    "application-volume-read-only": (lambda name: [volume.read_only for volume in container(name).volumes], [True]),
    "command-of-a-deployment": (lambda name: read_command(document(name), "sandbox", "front", "deployment").user, ""),
}
"""Documents of docs/original.md#silent-differences: what is read from them, and its value."""


def times(container: Container) -> list[tuple[float, float, float, float]]:
    """Delay, grace period, interval and time-out of each check, in seconds."""
    return [(check.delay, check.grace_period, check.interval, check.timeout) for check in container.health_checks]


@pytest.mark.parametrize("name", SILENT)
def test_differences_without_a_warning_are_as_the_page_has_them(name: str) -> None:
    read, value = SILENT[name]
    assert read(name) == value
