"""The commands that run the scheduler until a signal ends it: `bcs-scheduler serve` and `bcs-scheduler dev`."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from bcs_scheduler.local.settings import USUAL_PORTS, ClusterSettings
from bcs_scheduler.loop import gc_tuning
from bcs_scheduler.observability.logs import configure_logging
from bcs_scheduler.service import Service
from bcs_scheduler.settings.command_line import SettingsCommand, fail, read_settings, with_settings
from bcs_scheduler.settings.sections import ConfigError, Settings
from bcs_scheduler.settings.storage import warn_of_clear_secrets
from store import threads

if TYPE_CHECKING:
    from bcs_scheduler.local.cluster import LocalCluster
    from bcs_scheduler.local.kept import AgentPlace, KeptCluster

SETTINGS_HELP = "Every setting has a flag, an environment variable BCS_<SECTION>_<NAME>, and a line in the TOML file."
FIRST_COMMANDS = """\
Try, in another terminal:
  export BCS_SERVER={url}
  bcs examples web.json | bcs apply -f -
  bcs get taskgroups
  bcs explain web"""
ENDS_ALL = """\
Ctrl-C ends the scheduler, the cluster and all tasks. A second Ctrl-C kills
the tasks. Objects stay in {data}:
the next `bcs-scheduler dev` with this folder starts their taskgroups again.
Delete the folder to start without objects."""
KEEPS = """\
Ctrl-C ends the scheduler only: the cluster (process {pid}) and all tasks
continue to run. To resume:
  bcs-scheduler dev --keep --data {data}
Without --keep, the command resumes too, and its Ctrl-C ends the cluster and
all tasks."""
KEPT = """\
The cluster (process {pid}) continues to run, with {tasks}. To resume:
  bcs-scheduler dev --keep --data {data}
To end the cluster and all tasks: run the command without --keep, and then
press Ctrl-C."""
ENDS_NOW = """\
Ending {tasks} with SIGTERM, and with SIGKILL after the grace period.
Another Ctrl-C kills the rest at once."""
FAILURE = b"\0"
"""Beside the numbers of signals: the process ends by itself."""
USUAL_API = Settings().api.listen


@click.command(cls=SettingsCommand, epilog=SETTINGS_HELP)
@with_settings
def serve(config: Path | None, **flags: Any) -> None:
    """Run the scheduler. Several schedulers may run on one store: one leads, the others are standbys."""
    settings = read_settings(config, flags)
    configure_logging(settings.log)
    end = EndSignal()
    service = made(settings, end.fail)
    started(service)
    warn_of_clear_secrets(settings.store)
    gc_tuning.tune_process()
    click.echo(f"api {service.url}")
    end.wait(service.reload)
    service.stop()
    end.exit_on_failure()


@click.command()
@click.option("--agents", default=ClusterSettings().agents, show_default=True, help="Number of embedded agents.")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), default=Path("data"), show_default=True)
@click.option(
    "--api",
    "listen",
    metavar="HOST:PORT",
    help=f"Address of the API. Default: {USUAL_API}, or a free port if that one is taken.",
)
@click.option(
    "--ports",
    default="",
    metavar="RANGE",
    envvar="BCS_DEV_PORTS",
    help="Task ports of the first agent; those of each further agent are 1000 higher. "
    f"Default: {USUAL_PORTS}, or the next ranges that are free. Variable: BCS_DEV_PORTS.",
)
@click.option(
    "--keep", is_flag=True, help="At the end leave the cluster and its tasks running; the next start resumes them."
)
@click.option("--open", "show", is_flag=True, help="Open the console in a browser.")
@click.option("--log-level", default="warning", type=click.Choice(["debug", "info", "warning", "error"]))
@click.pass_context
def dev(
    ctx: click.Context, agents: int, data: Path, listen: str | None, ports: str, keep: bool, show: bool, log_level: str
) -> None:
    """Run everything embedded: SQLite store and a small cluster that runs real processes, kept in --data.

    API, master and agents listen on 127.0.0.1, on the addresses that are printed.
    """
    # `serve` does without the embedded cluster, whose modules are a twentieth of its start.
    from bcs_scheduler.local.cluster import LocalCluster
    from bcs_scheduler.local.errors import LocalClusterError
    from bcs_scheduler.local.kept import KeptCluster, places_of, running_tasks

    data = data.absolute()
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"--data {data}: {error.strerror}")
    folder = data / "mesos"
    wanted = ClusterSettings(agents=agents, data=folder, ports=ports, attributes="rack:r{n};zone:z{n%2}", cluster="dev")
    given = [name for name in ("agents", "ports") if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT]
    cluster = KeptCluster(wanted, given) if keep or KeptCluster.runs(folder) else LocalCluster(wanted)
    end = EndSignal()
    try:
        cluster.start()
        places = places_of(cluster.url)
    except Exception as error:
        fail(f"cannot start the embedded cluster: {error}")
    goes_on = isinstance(cluster, KeptCluster) and cluster.resumed  # also if the scheduler cannot start
    # Everything is on this machine here, webhooks too.
    embedded = {"store.url": f"sqlite:///{data}/state.db", "mesos.url": cluster.url, "webhooks.local": "true"}
    try:
        settings = read_settings(None, {**embedded, "api.listen": listen or _free_api(), "log.level": log_level})
        configure_logging(settings.log)
        service = made(settings, end.fail)
        started(service)
        click.echo(f"api {service.url}")
        click.echo(f"console {service.url}/")
        kept = cluster if isinstance(cluster, KeptCluster) else None
        _introduce(cluster, kept, places, service.url, data, keep=keep)
        if show:
            import webbrowser

            webbrowser.open(f"{service.url}/")
        end.wait()
        if not keep:
            end.on_another(cluster.hurry)
            with suppress(OSError):  # without an answer no task runs
                _announce_end(running_tasks(cluster.url))
        service.stop()
        goes_on = keep
    finally:
        if not goes_on:
            try:
                cluster.stop()
            except LocalClusterError as error:
                fail(str(error))
    if isinstance(cluster, KeptCluster) and keep:
        tasks = _counted(running_tasks(cluster.url), "task")
        click.echo(KEPT.format(pid=cluster.pid, tasks=tasks, data=data))
    end.exit_on_failure()


def _introduce(
    cluster: LocalCluster | KeptCluster,
    kept: KeptCluster | None,
    places: list[AgentPlace],
    url: str,
    data: Path,
    *,
    keep: bool,
) -> None:
    """Prints the running parts with their addresses, and the effect of Ctrl-C. `kept`: the cluster if it is a process
    of its own; None if it ends with this one."""
    resumed = kept is not None and kept.resumed
    click.echo(
        f"mesos {cluster.url} ({'resumed, ' if resumed else ''}{_counted(len(places), 'agent')}), data in {data}"
    )
    for place in places:
        click.echo(f"{place.hostname} {place.url}, ports of tasks {place.task_ports}")
    click.echo(FIRST_COMMANDS.format(url=url))
    if keep and kept is not None:
        click.echo(KEEPS.format(pid=kept.pid, data=data))
    else:
        click.echo(ENDS_ALL.format(data=data))


def _announce_end(tasks: int) -> None:
    if tasks:
        click.echo(ENDS_NOW.format(tasks=_counted(tasks, "task")))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _free_api() -> str:
    """The usual address of the API, or one with a free port."""
    host, _, port = USUAL_API.rpartition(":")
    try:
        with socket.create_server((host, int(port))):
            return USUAL_API
    except OSError:
        return f"{host}:0"


def made(settings: Settings, failed: Callable[[str], object]) -> Service:
    try:
        return Service(settings, failed)
    except ConfigError as error:
        fail(str(error))


def started(service: Service) -> None:
    try:
        service.start()
    except (OSError, ValueError, ConfigError) as error:
        fail(str(error))


class EndSignal:
    """SIGTERM, SIGINT and SIGHUP, caught from the moment this is made.

    The main thread waits for a byte that Python's own handler writes, not for a lock: a signal that arrives while the
    thread is about to wait for a lock is seen only when the lock is given, which would be never.
    """

    def __init__(self) -> None:
        self.failure = ""
        """Why the process ends by itself; empty = it does not."""
        self._caught, written = socket.socketpair()
        written.setblocking(False)
        self._written = written
        self._without_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        """Started by `nohup`: the process outlives its terminal."""
        self._terminals = [stream for stream in (1, 2) if os.isatty(stream)]
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)

    def fail(self, reason: str) -> None:
        """The process ends in order as after SIGTERM, and with an error. Any thread."""
        self.failure = self.failure or reason
        self._written.send(FAILURE)

    def exit_on_failure(self) -> None:
        """Ends the process with exit code 1 after a failure: unlike 2, the supervisor starts it again."""
        if self.failure:
            click.echo(f"bcs-scheduler: {self.failure}", err=True)
            sys.exit(1)

    def on_another(self, action: Callable[[], object]) -> None:
        """Calls `action` in a thread when another SIGTERM or SIGINT comes, after `wait` has returned. SIGHUP is
        ignored from now on."""

        def watch() -> None:
            while self._caught.recv(1) in (bytes((signal.SIGHUP,)), FAILURE):
                pass
            action()

        threads.ending("end-signal", watch).start()

    def wait(self, hangup: Callable[[], None] | None = None) -> None:
        """Returns at SIGTERM and SIGINT. `hangup` is called for every SIGHUP; None: the terminal was closed, and the
        process ends as after SIGTERM, unless `nohup` has started the process."""
        while self._caught.recv(1) == bytes((signal.SIGHUP,)):
            if hangup is not None:
                hangup()
            elif not self._without_terminal:
                self._leave_terminals()
                return

    def _leave_terminals(self) -> None:
        """Output to a closed terminal fails, and would end the process out of order."""
        with open(os.devnull, "wb") as nowhere:
            for stream in self._terminals:
                os.dup2(nowhere.fileno(), stream)
