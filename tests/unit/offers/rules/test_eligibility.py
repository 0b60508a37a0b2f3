"""Whether the stored records allow a scheduler to lead (bcs_scheduler.leadership.eligibility), and that no
unreadable record is replaced by the core."""

from __future__ import annotations

import pytest

from bcs_scheduler.core.event_log import RUN
from bcs_scheduler.core.interface import cluster_manager, effects
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.leadership.eligibility import obstacle, protected
from offers.agents import ListedAgent
from store.base import Quarantined
from store.records import AgentSetting, Event, EventLog, Framework, Record, Task, TaskGroup
from store.state import State

FRAMEWORK = Framework(id="framework-1", cluster="here", created_at=1.0)
ALIVE = TaskGroup(
    id="0.web.ns.here.1", namespace="ns", application="web", index=0, version="1", tasks=(Task(id="1.0.0.web.ns.here"),)
)
ENDED = TaskGroup(
    id="1.web.ns.here.1", namespace="ns", application="web", index=1, version="1", status="Failed", ended_at=2.0
)
UNREADABLE = Quarantined("framework", "framework", "bad JSON")
OPTIONS = CoreOptions(strict=True)


@pytest.mark.parametrize(
    ("records", "quarantined", "code"),
    [
        ([], [], ""),
        ([FRAMEWORK, ALIVE], [], ""),
        ([FRAMEWORK, ALIVE], [Quarantined("application", "ns/web", "bad")], ""),
        ([], [UNREADABLE], "framework_unreadable"),
        ([ALIVE], [UNREADABLE], "framework_unreadable"),
        ([ALIVE], [], "framework_missing"),
        ([], [Quarantined("taskgroup", ALIVE.id, "bad")], "framework_missing"),
        ([ENDED], [], ""),
        ([Framework(created_at=1.0), ALIVE], [], ""),
        ([Framework(forgotten=True), ALIVE], [], ""),
    ],
)
def test_who_may_lead(records: list[Record], quarantined: list[Quarantined], code: str) -> None:
    found = obstacle(State(records), quarantined)
    assert (found.code if found else "") == code
    assert found is None or "set-framework" in found.message


def test_endpoints_alone_may_be_written_anew() -> None:
    kinds = ("framework", "application", "taskgroup", "transaction", "journal", "agentsetting", "secret", "endpoint")
    kept = protected([Quarantined(kind, "key", "bad") for kind in kinds])
    assert {kind for kind, _ in kept} == {*kinds} - {"endpoint"}


def test_an_unreadable_framework_record_is_not_replaced_by_a_subscription() -> None:
    core = Core([], CoreOptions(), 1.0, protected([UNREADABLE]))
    units = core.turn([cluster_manager.Connected(framework_id="another", cause="mesos:1")], 1.0)
    assert not [change for unit in units for change in unit.changes if change.kind == "framework"]
    assert core.state.framework.id == ""


def test_events_are_numbered_behind_an_unreadable_run() -> None:
    event = Event(number=1, at=1.0, object="application", key="ns/web", namespace="ns", reason="Running", message="")
    readable = EventLog(number=1, events=(event,))
    lost = EventLog(number=65)
    core = Core([FRAMEWORK, readable], OPTIONS, 1.0, protected([Quarantined("journal", lost.key, "bad")]))
    units = core.turn([cluster_manager.Connected(framework_id="framework-1", cause="mesos:1")], 1.0)
    told = [h for u in units for e in u.effects if isinstance(e, effects.EventsRecorded) for h in e.events]
    assert told and told[0].number == 65 + RUN
    assert lost.key not in [change.key for unit in units for change in unit.changes]


def test_a_setting_is_not_moved_over_an_unreadable_one() -> None:
    """The agent is listed under the name of the unreadable setting; the readable one names its host."""
    named = AgentSetting(agent="host-1", disabled=True)
    core = Core([FRAMEWORK, named], OPTIONS, 1.0, protected([Quarantined("agentsetting", "10.0.0.1", "bad")]))
    agent = ListedAgent(id="a-1", ip="10.0.0.1", hostname="host-1", total={}, attributes={}, active=True)
    core.turn([cluster_manager.AgentsListed(agents=(agent,), cause="mesos:1")], 1.0)
    assert core.agents == [agent]
    assert set(core.state.agent_settings) == {"host-1"}
