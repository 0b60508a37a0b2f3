"""The embedded cluster as a program: ``bcs-scheduler local-mesos``."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click
import uvloop

from bcs_scheduler.local.cluster import Cluster, end_tasks
from bcs_scheduler.local.errors import LocalClusterError
from bcs_scheduler.local.settings import USUAL_PORTS, ClusterSettings

DEFAULTS = ClusterSettings()


@click.command("local-mesos")
@click.option("--host", default=DEFAULTS.host, show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=5050,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option("--agents", default=DEFAULTS.agents, show_default=True, help="Number of agents.")
@click.option("--cpus", default=DEFAULTS.cpus, show_default=True, help="Cores of each agent.")
@click.option("--mem", default=DEFAULTS.mem, show_default=True, help="Memory of each agent in MB.")
@click.option("--disk", default=DEFAULTS.disk, show_default=True, help="Disk of each agent in MB.")
@click.option("--gpus", default=DEFAULTS.gpus, show_default=True, help="GPUs of each agent.")
@click.option(
    "--ports",
    default=DEFAULTS.ports,
    help="Port ranges of the first agent; with real processes those of each further one begin 1000 later. "
    f"Default: {USUAL_PORTS}, or with real processes the next ranges that are free.",
)
@click.option("--attributes", default="", help='Such as "rack:r{n%4};zone:z1"; {n} is the number of the agent, from 1.')
@click.option("--reservations", default="", help='Static reservations, such as "web=cpus:1;mem:512".')
@click.option("--cluster", default=DEFAULTS.cluster, show_default=True, help="Name of the cluster.")
@click.option("--synthetic", is_flag=True, help="Start no processes; the agents only report the states of tasks.")
@click.option(
    "--start-delay", default=DEFAULTS.start_delay, show_default=True, help="Seconds until a synthetic task starts."
)
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Keep agent ids and sandboxes here.")
@click.option(
    "--allocation-interval", default=DEFAULTS.allocation_interval, show_default=True, help="Seconds between offers."
)
def local_mesos(**options: object) -> None:
    """Run a Mesos-compatible cluster, master and agents in one process, until SIGTERM or SIGINT.

    The signal ends the tasks within their grace periods; a second signal kills the tasks.
    """
    settings = ClusterSettings(**options)  # type: ignore[arg-type]
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings))
    except (LocalClusterError, OSError) as error:
        raise click.ClickException(str(error)) from None


async def serve(settings: ClusterSettings) -> None:
    """Prints one line with the URL when ready; returns after a signal, when the tasks have ended. After a second signal
    the tasks are killed."""
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def caught() -> None:
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, caught)
    cluster = Cluster(settings)
    try:
        await cluster.start()
        click.echo(cluster.url)
        await stop.wait()
        await end_tasks(cluster, hurry)
    finally:
        await cluster.stop()


if __name__ == "__main__":
    local_mesos()
