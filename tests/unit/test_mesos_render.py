"""Environment and template variables of a task (docs/original.md#environment)."""

from __future__ import annotations

import pytest

from bcs_scheduler.mesos.errors import LaunchError
from bcs_scheduler.mesos.launches.render import environment, expand, injected, template_variables
from store.records import BoundPort, Task, TaskGroup
from store.records.definition import Amounts, Container, EnvVar

TASKGROUP = TaskGroup(
    id="2.web.games.c.1700",
    namespace="games",
    application="web",
    index=2,
    version="1",
    agent_ip="10.0.0.7",
    tasks=(
        Task(id="t0", ports=(BoundPort(name="http", container_port=80, host_port=31005),)),
        Task(id="t1", ports=(BoundPort(name="admin", host_port=31006), BoundPort(name="metrics", container_port=9100))),
    ),
)


def rendered(*env: EnvVar, task: int = 0, **fields: object) -> dict[str, str]:
    container = Container(env=env, **fields)  # type: ignore[arg-type]
    facts = injected(TASKGROUP, TASKGROUP.tasks[task])
    return environment(container, template_variables(TASKGROUP), facts)


def test_every_template_variable() -> None:
    text = (
        "${bcs.appname}|${bcs.namespace}|${bcs.instanceid}|${bcs.hostip}|${bcs.ports.http}|${bcs.ports.metrics}"
        "|${bcs.taskgroupid}|${bcs.taskgroupname}"
    )
    assert expand(text, template_variables(TASKGROUP)) == "web|games|2|10.0.0.7|31005|9100|2.web.games.c.1700|web-2"


def test_templates_in_names_and_values_of_the_environment() -> None:
    env = rendered(EnvVar(name="AT_${bcs.instanceid}", value="http://${bcs.hostip}:${bcs.ports.admin}/"))
    assert env["AT_2"] == "http://10.0.0.7:31006/"


@pytest.mark.parametrize("text", ["${HOME}", "${bcs.nonsense}", "${bcs.ports.none}", "$${x", "plain"])
def test_what_is_not_ours_is_left_alone(text: str) -> None:
    assert rendered(EnvVar(name="A", value=text))["A"] == text


def test_injected_variables_are_facts_and_win() -> None:
    env = rendered(EnvVar(name="PORT_http", value="80"), EnvVar(name="BCS_NODE_IP", value="x"))
    assert env == {
        "PORT_http": "31005",
        "BCS_NODE_IP": "10.0.0.7",
        "BCS_POD_ID": "2.web.games.c.1700",
        "BCS_CONTAINER_IP": "10.0.0.7",
    }


def test_a_task_gets_its_own_ports_only() -> None:
    env = rendered(task=1)
    assert (env["PORT_admin"], env["PORT_metrics"]) == ("31006", "9100")
    assert "PORT_http" not in env


def test_a_whole_value_may_refer_to_another_variable() -> None:
    env = rendered(
        EnvVar(name="A", value="$B"),
        EnvVar(name="B", value="$PORT_http"),
        EnvVar(name="C", value="$NOBODY"),
        EnvVar(name="D", value="pay $B"),
    )
    assert (env["A"], env["B"], env["C"], env["D"]) == ("31005", "31005", "$NOBODY", "pay $B")


def test_a_circle_of_references_ends() -> None:
    env = rendered(EnvVar(name="A", value="$B"), EnvVar(name="B", value="$A"))
    assert {env["A"], env["B"]} <= {"$A", "$B"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("requests.cpu", "250"),
        ("limits.cpu", "1500"),
        ("requests.memory", "64"),
        ("limits.memory", "64"),
        ("requests.storage", "10"),
    ],
)
def test_resource_references_are_integers_and_a_missing_limit_is_the_request(field: str, value: str) -> None:
    env = rendered(
        EnvVar(name="R", resource=field),
        requests=Amounts(cpus=250, mem=64_000, disk=10_000),
        limits=Amounts(cpus=1500),
    )
    assert env["R"] == value


@pytest.mark.parametrize("field", ["limits.gpu", "cpu", "status.hostIP"])
def test_an_unknown_resource_reference_is_an_error(field: str) -> None:
    with pytest.raises(LaunchError, match=field):
        rendered(EnvVar(name="R", resource=field))


def test_nothing_of_the_definition_is_changed() -> None:
    """docs/original.md#shared-objects: substitution works on a copy."""
    container = Container(env=(EnvVar(name="A", value="${bcs.instanceid}"),))
    environment(container, template_variables(TASKGROUP), injected(TASKGROUP, TASKGROUP.tasks[0]))
    assert container.env[0].value == "${bcs.instanceid}"
