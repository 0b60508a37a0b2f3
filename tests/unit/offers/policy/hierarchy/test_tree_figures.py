"""The figures of hierarchical queues in metrics."""

from __future__ import annotations

from bcs_scheduler.core.interface import requests
from bcs_scheduler.observability.metrics import Metrics
from tests.unit.core.placement.engines.test_hierarchical import agents, arrive
from tests.unit.core.placement.test_queue_accounts import of
from tests.unit.core.placement.test_queue_trees import changed, create, options, put
from tests.unit.lab import Lab
from tests.unit.metrics_support import leading, samples


def test_the_series_of_the_tree() -> None:
    lab = Lab(options())
    create(lab, "one", 5)
    create(lab, "elsewhere", 1, user="bea")
    arrive(lab, *agents(6))
    put(lab, changed("two", resources={"guaranteed": {"cpus": 2}}))
    lab.ask(requests.SetQueueState(queue="root.two", state="Draining"))
    lab.wait(6.0)
    metrics = Metrics()
    metrics.lead(leading(lab.core))
    found = samples(metrics)
    assert of(found, "queue_used")["root.one", "cpus", "*"] == 0.3
    assert of(found, "queue_used")["root", "cpus", "*"] == 0.4
    assert of(found, "queue_used")["root.teams.bea", "cpus", "*"] == 0.1
    assert of(found, "queue_wanted")["root.one", "cpus", "*"] == 0.2
    assert of(found, "queue_guarantee") == {("root.two", "cpus"): 2}
    assert of(found, "queue_capability") == {("root.one", "cpus"): 0.3}
    assert of(found, "queue_taskgroups") == {
        ("root.default",): 0, ("root.one",): 3, ("root.two",): 0, ("root.teams.bea",): 1,
    }  # fmt: skip
    assert of(found, "queue_running_applications")["root.one",] == 1
    assert of(found, "queue_pending_taskgroups") == {("root.one", "queue_limit"): 2}
    assert {name[0] for name, value in of(found, "queue_halted").items() if value} == {"root.two"}
    assert of(found, "queue_tree_revision") == {(): 2}


def test_figures_follow_taskgroups_that_end_while_nothing_waits() -> None:
    lab = Lab(options())
    create(lab, "two", 2)
    arrive(lab, *agents(2))
    metrics = Metrics()
    metrics.lead(leading(lab.core))
    lab.wait(6.0)
    assert of(samples(metrics), "queue_taskgroups")["root.two",] == 2
    for group in list(lab.core.state.taskgroups.values()):
        lab.report(group, "FINISHED")
    assert not lab.core.turn_context.engine.demands
    lab.wait(6.0)
    assert of(samples(metrics), "queue_used")["root.two", "cpus", "*"] == 0


def test_taskgroups_without_a_queue_are_counted_at_root() -> None:
    document = {"queues": [{"name": "other"}]}
    lab = Lab(options(document))
    create(lab, "nowhere", 2)
    arrive(lab, "agent-1")
    metrics = Metrics()
    metrics.lead(leading(lab.core))
    assert of(samples(metrics), "queue_pending_taskgroups") == {("root", "no_queue"): 2}
