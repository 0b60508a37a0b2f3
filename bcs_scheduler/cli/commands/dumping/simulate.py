"""`bcs simulate`: a load on a cluster under several policies, without any effect on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.options import FILE, Duration, connection_options, examples, output_option, pass_session
from bcs_scheduler.cli.output.data import print_form
from bcs_scheduler.cli.output.formats import Form, chosen_form
from bcs_scheduler.cli.output.tables import Column, table
from bcs_scheduler.cli.session import Session

if TYPE_CHECKING:
    from bcs_scheduler.core.options import CoreOptions
    from bcs_scheduler.simulator.scenario.model import Scenario

DAY = 86400.0
FIGURES = ("launched", "finished", "waiting", "preempted")
"""Columns with plain numbers."""


@click.command(
    epilog=examples(
        "bcs simulate --dump cluster.json.gz --load 500x4,duration=1h --policy policy.yaml",
        "bcs simulate --agents 100x16cpu,64gb --load 500x10,cpus=0.5-2,duration=10m-2h --scoring binpack",
    )
)
@click.option("--dump", "dump_file", help="The cluster at the start, a file of `bcs dump`.", **FILE)
@click.option("--agents", multiple=True, metavar="SPEC", help="More agents, such as 100x16cpu,64gb,zone=a.")
@click.option("--load", "loads", multiple=True, metavar="SPEC", help="Applications, such as 500x10,cpus=0.5-2.")
@click.option("--policy", "policies", multiple=True, metavar="FILE", help="A policy to compare with `simple`.")
@click.option(
    "--scoring",
    type=click.Choice(["spread", "binpack"]),
    default="spread",
    show_default=True,
    help="Order of suitable agents in all runs.",
)
@click.option("--for", "seconds", type=Duration(), default=DAY, help="Virtual time of each run. Default: 24h.")
@click.option("--seed", type=int, default=1, show_default=True, help="Equal seeds give equal results.")
@output_option
@connection_options
@pass_session
def simulate(
    session: Session,
    dump_file: str | None,
    agents: tuple[str, ...],
    loads: tuple[str, ...],
    policies: tuple[str, ...],
    scoring: str,
    seconds: float,
    seed: int,
    output: Form | None,
) -> None:
    """Simulate a load on a cluster under several policies, with the code that decides in the scheduler.

    The first run has the policy `simple`, and one more run follows for each --policy. No cluster is changed.
    """
    from bcs_scheduler.simulator.comparison import summary
    from bcs_scheduler.simulator.engine.simulation import Simulation
    from bcs_scheduler.simulator.scenario.amounts import BadInput

    try:
        scenario = _scenario(dump_file, agents, loads, seed)
        runs = _runs(policies, scoring)
    except BadInput as error:
        raise UsageError(str(error)) from None
    if seconds <= 0:
        raise UsageError("--for: must be more than 0")
    for note in scenario.notes:
        session.warn(note)
    found = [summary(Simulation(name, scenario, options).run(seconds)) for name, options in runs]
    for one in found:
        for message in one["refused"][:1]:
            session.warn(f"{one['name']}: {len(one['refused'])} requests were refused, the first: {message}")
    if not print_form(session.out, {"seed": seed, "runs": found}, chosen_form(output)):
        _print(session, found)


def _scenario(dump_file: str | None, agents: tuple[str, ...], loads: tuple[str, ...], seed: int) -> Scenario:
    """Raises BadInput."""
    from bcs_scheduler.simulator.scenario.amounts import BadInput
    from bcs_scheduler.simulator.scenario.dump import read_dump
    from bcs_scheduler.simulator.scenario.model import Scenario
    from bcs_scheduler.simulator.scenario.specs import creations_of, namespaces_of, read_agents, read_load

    if not loads:
        raise BadInput("--load is missing: it says which applications are created")
    scenario = read_dump(Path(dump_file)) if dump_file else Scenario((), (), ())
    machines = list(scenario.machines)
    for spec in agents:
        machines += read_agents(spec, len(machines) - len(scenario.machines))
    if len({one.id for one in machines}) < len(machines):
        raise BadInput("--agents: the dump has agents of the same names")
    if not machines:
        raise BadInput("there are no agents: give --dump or --agents")
    read = [read_load(spec) for spec in loads]
    known = {(record.kind, record.key) for record in scenario.records}
    spaces = [record for record in namespaces_of(read) if (record.kind, record.key) not in known]
    return scenario._replace(
        machines=tuple(machines), records=(*scenario.records, *spaces), creations=creations_of(read, seed)
    )


def _runs(policies: tuple[str, ...], scoring: Any) -> list[tuple[str, CoreOptions]]:
    """Name and options of each run. Raises BadInput."""
    from bcs_scheduler.core.options import CoreOptions
    from bcs_scheduler.simulator.scenario.policies import SIMPLE, with_policy

    options = CoreOptions(scoring=scoring)
    return [(name, with_policy(options, name)) for name in dict.fromkeys((SIMPLE, *policies))]


def _print(session: Session, found: list[dict[str, Any]]) -> None:
    share = ("CPUS", "cpusUsed"), ("MEM", "memUsed"), ("FRAGMENTED", "fragmentation"), ("FAIRNESS", "fairness")
    whole = [Column("RUN", lambda one: one["name"])]
    whole += [Column(title, _cell(key, "{:.1%}"), right=True) for title, key in share[:3]]
    whole += [Column(title, _cell(key, "{:.2f}"), right=True) for title, key in share[3:]]
    session.show(table([*whole, *_columns()], [{**one, **one["total"]} for one in found]))
    rows = [{"group": name, "run": one["name"], **row} for one in found for name, row in one["groups"].items()]
    session.say("")
    heads = [Column("QUEUE", lambda one: one["group"]), Column("RUN", lambda one: one["run"])]
    order = sorted(rows, key=lambda row: str(row["group"]))
    session.show(table([*heads, *_columns(), Column("SERVED", _cell("served", "{:.1%}"), right=True)], order))


def _columns() -> list[Column]:
    numbers = [Column(name.upper(), _cell(name, "{}"), right=True) for name in FIGURES]
    waits = (("WAIT-MEAN", "waitMean"), ("WAIT-P95", "waitP95"), ("WAIT-MAX", "waitLongest"))
    return [*numbers, *(Column(title, _cell(key, "{:.1f}s"), right=True) for title, key in waits)]


def _cell(key: str, form: str) -> Any:
    return lambda row: form.format(row[key])
