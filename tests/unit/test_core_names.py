"""Names that operators of Mesos choose freely (cluster, hosts, agents) do no harm to what runs."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from bcs_scheduler.core.interface import cluster_manager, requests
from store.encoding.codec import Stored, decode, encode
from store.ids import TaskGroupId
from store.records import Record
from store.zookeeper.tree import Address, Tree, unescape
from tests.unit.lab import Lab

ANY_NAME = st.text(max_size=80) | st.text(alphabet="./\\:@ -_0a,;=%?#'\"\n\u2028ö", max_size=30)
MESOS_NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)
"""Names of hosts and ids of agents: any text that Mesos can send."""


def kept(record: Record) -> Record:
    """The record as a store gives it back, from the node that ZooKeeper has for it."""
    name = Tree("/bcs").record(Address(record.kind, record.key)).rpartition("/")[2]
    assert name.isascii() and name.isprintable() and unescape(name) == record.key
    found = decode(Stored(record.kind, unescape(name), encode(record)))
    assert isinstance(found, Record)
    return found


@given(cluster=ANY_NAME, host=MESOS_NAME, agent=MESOS_NAME)
@example(cluster="dc1.example.com", host="node-1.dc1.example.com", agent="b2c1.dc1-S0")
def test_a_task_runs_on_whatever_cluster_host_and_agent_are_called(cluster: str, host: str, agent: str) -> None:
    lab = Lab(cluster=cluster)
    lab.create()
    lab.offer(agent, hostname=host)
    lab.report(lab.group(), "RUNNING")
    group = lab.group()
    assert (group.status, group.hostname, group.agent_id) == ("Running", host, agent)
    assert not lab.ended()
    identity = TaskGroupId.parse(group.id)
    assert identity is not None and (identity.owner, identity.cluster) == (
        "default/web",
        lab.core.state.framework.cluster,
    )

    successor = Lab(lab.options, [kept(record) for record in lab.records()], lab.now, cluster=cluster)
    assert successor.group() == group
    successor.report(group, "RUNNING")
    assert not successor.ended() and len(successor.sent(cluster_manager.Acknowledge)) == 1
    successor.wait(30.0)
    assert group.tasks[0].id not in {task for ask in successor.sent(cluster_manager.Reconcile) for task, _ in ask.tasks}
    successor.report(group, "FAILED")
    successor.offer(agent, hostname=host)
    assert successor.group().id != group.id and successor.group().restarts == 1


@given(cluster=ANY_NAME)
def test_remote_results_and_events_find_their_task_in_any_cluster(cluster: str) -> None:
    lab = Lab(cluster=cluster)
    lab.create()
    lab.offer()
    lab.report(lab.group(), "RUNNING")
    told = [event for event_log in lab.core.state.event_logs.values() for event in event_log.events]
    assert {event.namespace for event in told if event.object == "taskgroup"} == {"default"}
    refused = lab.ask(requests.ReportHealth(task_id=lab.group().tasks[0].id, type="REMOTE_TCP", healthy=True))
    assert "has no health check" in refused.message  # the task was found


def test_a_cluster_keeps_the_name_it_was_registered_under() -> None:
    lab = Lab(cluster="dc1.example.com")
    lab.turn(cluster_manager.Connected(framework_id="framework", cluster="renamed"))
    assert lab.core.state.framework.cluster == "dc1.example.com"
