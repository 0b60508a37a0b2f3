"""What names metrics (rules, dashboard, guide, core) names such that exist."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import yaml

from bcs_scheduler.core.interface.cluster_manager import AgentsListed
from bcs_scheduler.core.interface.effects import LogLine
from bcs_scheduler.core.placement.hierarchy.trees import Trees
from bcs_scheduler.leadership.standby import FollowerStatus
from bcs_scheduler.observability.metrics import Metrics
from bcs_scheduler.prober.probe import Verdict
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.session.configuration import default_policy
from store.base import Change, Position
from store.records import DEFAULT_PARTITION, Daemonset, Endpoint, Limits, Queue
from store.records.definition import Amounts
from tests.unit.metrics_support import (
    NOW,
    PREFIX,
    agent,
    application,
    feed,
    lead,
    samples,
    taskgroup,
    transaction,
)

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"


def known_names() -> set[str]:
    """Every name that can be scraped."""
    metrics = Metrics("BCS-1", taskgroup_label=True)
    core = lead(metrics, application("web"), taskgroup("web", 0))
    core.turn([AgentsListed(agents=(agent(1, "10.0.0.1"),))], NOW)
    sick = taskgroup("web", 1)
    sick = msgspec.structs.replace(sick, tasks=(msgspec.structs.replace(sick.tasks[0], healthy=False),))
    core.state.apply("taskgroup", sick.key, sick)
    core.state.apply("transaction", "t-1", transaction("t-1", "LAUNCH"))
    feed(metrics)
    metrics.logged(LogLine(kind="transaction", key="t-1", reason="TransactionTimedOut", message=""))
    metrics.committed([Change("taskgroup", "t", None)], 0.1)
    metrics.commit_failed([Change("taskgroup", "t", None)])
    metrics.loaded(1, 0.1)
    metrics.probed("REMOTE_TCP", Verdict(False, "connection refused"), 0.1)
    metrics.published("endpoint", "written", 1)
    metrics.alarmed("sent")
    metrics.webhook_asked("ns/hooks/check", "allowed", 0.1)
    metrics.manager_runs("spool", runs=True)
    core.state.apply("endpoint", "ns/web", Endpoint(namespace="ns", name="web"))
    core.state.apply("queue", "batch", Queue(name="batch", guarantee=Amounts(cpus=1), capability=Limits(cpus=2)))
    core.turn_context.options = replace(core.turn_context.options, policy=default_policy())
    decisions: Any = SimpleNamespace(shares={"batch": {"cpus": 1}}, held_back={}, promises={})
    core.turn_context.queues.decided("*", decisions, {})
    core.turn_context.engine.wanted["*", "ns/web"] = 1
    core.state.apply("daemonset", "ns/probe", Daemonset(namespace="ns", name="probe"))
    metrics.stand_by(lambda: FollowerStatus(0.2, Position(1, 1), 1, 0))
    return {name for name, _ in samples(metrics)} | tree_names()


def tree_names() -> set[str]:
    """The names of the series of hierarchical queues."""
    metrics, tree = Metrics(), {"queues": [{"name": "a", "resources": {"guaranteed": {"cpus": 1}, "max": {"cpus": 2}}}]}
    core = lead(metrics)
    trees = Trees(core.turn_context, partition_of(tree), "", lambda _: True, DEFAULT_PARTITION)
    core.turn_context.queues.trees[trees.name] = trees
    trees.of("*")
    return {name for name, _ in samples(metrics)}


def names_in(texts: Iterable[str]) -> set[str]:
    return {name for text in texts for name in re.findall(rf"{PREFIX}(\w+)", text)}


def strings_of(tree: Any) -> list[str]:
    if isinstance(tree, dict):
        return [text for item in tree.values() for text in strings_of(item)]
    if isinstance(tree, list):
        return [text for item in tree for text in strings_of(item)]
    return [tree] if isinstance(tree, str) else []


def test_the_prometheus_rules_name_metrics_that_exist() -> None:
    rules = yaml.safe_load((CONF / "prometheus-rules.yaml").read_text())
    expressions = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    assert len(expressions) >= 10
    for expression in expressions:
        assert names_in([expression]), f"{expression} names no metric of ours"
    assert names_in(strings_of(rules)) - known_names() == set()
    for group in rules["groups"]:
        for rule in group["rules"]:
            assert "alert" in rule and rule["annotations"]["summary"] and rule["labels"]["severity"]


def test_the_dashboard_names_metrics_that_exist() -> None:
    dashboard = msgspec.json.decode((CONF / "grafana-dashboard.json").read_bytes())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    for panel in panels:
        assert names_in(target["expr"] for target in panel["targets"]), panel["title"]
    assert names_in(strings_of(dashboard)) - known_names() == set()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_tables_of_the_documents_name_metrics_that_exist() -> None:
    histograms = {name.removesuffix("_bucket") for name in known_names() if name.endswith("_bucket")}
    found: list[str] = []
    for page, title, least in (("operations.md", "Metrics", 20), ("policies.md", "Metrics of policies", 10)):
        guide = (ROOT / "docs" / page).read_text()
        section = guide.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| (`.+?`) \| ", section, re.MULTILINE)
        assert len(rows) > least
        found += [name for row in rows for name in re.findall(r"`(\w+)(?:\{[^`]*\})?`", row)]
        assert names_in([guide]) - known_names() - histograms == set()
    assert set(found) - known_names() - histograms == set()
    assert len(found) == len(set(found))
