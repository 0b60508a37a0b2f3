"""A placement policy of a third party: agents say in the attribute `power` whether they run on mains or on battery.

The plug-in `power` keeps tasks with many cores away from batteries, and prefers mains. The action `shed` evicts running
tasks of low priority from agents on battery. The node order `newest` prefers agents with a high attribute `year`.
"""

from __future__ import annotations

from offers.policy.session.plugins.interface import Argument, Functions
from offers.policy.session.state.statements import EVICT

BATTERY = "battery"


class PowerSupply:
    """The plug-in. `battery.cores`: the most cores of one task on an agent with a battery. `mains.points`: the score
    that an agent on mains has more than others."""

    name = "power"
    arguments = {"battery.cores": Argument("decimal", 1, 0), "mains.points": Argument("integer", 10, 0)}  # noqa: RUF012

    def open(self, session, arguments):
        """Returns the functions for one session. Nothing of the session is needed."""
        most = arguments["battery.cores"] * 1000
        points = arguments["mains.points"]

        def predicate(template, view):
            on_battery = view.agent.attributes.get("power") == BATTERY
            return "OnBattery" if on_battery and dict(template.request).get("cpus", 0) > most else None

        def node_order(template, view):
            return 0 if view.agent.attributes.get("power") == BATTERY else points

        return Functions(predicate=predicate, node_order=node_order)


class ShedLoad:
    """The action. `below`: tasks of jobs with a lower priority are evicted."""

    name = "shed"
    arguments = {"below": Argument("integer", 0)}  # noqa: RUF012

    def run(self, session, arguments):
        """Commits one statement per victim, so that each is decided by itself."""
        for rank, agent in enumerate(session.agents.agents):
            if agent.attributes.get("power") == BATTERY:
                for victim in list(session.running_on(rank)):
                    if victim.job.priority < arguments["below"] and not victim.task.critical:
                        statement = session.statement(victim.job)
                        need = session.needs.of(victim.task.template)
                        statement.apply(EVICT, victim.job, need, victim.position, rank)
                        statement.commit()


def newest(template, view):
    """Returns the year of an agent as its score; 0 if the agent does not say."""
    year = view.agent.attributes.get("year", 0)
    return int(year) if isinstance(year, int | float) else 0
