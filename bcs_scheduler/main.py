"""The program `bcs-scheduler`: serve, dev, local-mesos."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bcs_scheduler import collector, keeping
from bcs_scheduler.commandline import fail, read_settings, with_settings
from bcs_scheduler.config import ConfigError, Settings
from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.main import local_mesos
from bcs_scheduler.local.settings import ClusterSettings
from bcs_scheduler.logs import configure_logging
from bcs_scheduler.service import Service
from bcs_scheduler.version import VERSION

SETTINGS_HELP = "Every setting has a flag, an environment variable BCS_<SECTION>_<NAME>, and a line in the TOML file."
FIRST_COMMANDS = """\
Try, in another terminal:
  export BCS_SERVER={url}
  bcs apply -f conf/examples/web.json
  bcs get taskgroups
  bcs explain web
Stop with Ctrl-C."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="bcs-scheduler")
def main() -> None:
    """A framework scheduler for Apache Mesos."""


@main.command(epilog=SETTINGS_HELP)
@with_settings
def serve(config: Path | None, **flags: Any) -> None:
    """Run the scheduler. Several may run on one store: one leads, the others stand by."""
    settings = read_settings(config, flags)
    configure_logging(settings.log)
    end = EndSignal()
    service = made(settings, end.fail)
    started(service)
    collector.relax()
    click.echo(f"api {service.url}")
    end.wait(service.reload)
    service.stop()
    end.tell()


@main.command()
@click.option("--agents", default=3, show_default=True, help="Number of embedded agents.")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), default=Path("data"), show_default=True)
@click.option("--api", "listen", default="127.0.0.1:8080", show_default=True, metavar="HOST:PORT")
@click.option(
    "--ports", default="21000-21999", show_default=True, help="Of the first agent; the next ones 1000 higher."
)
@click.option("--log-level", default="warning", type=click.Choice(["debug", "info", "warning", "error"]))
def dev(agents: int, data: Path, listen: str, ports: str, log_level: str) -> None:
    """Run everything embedded: SQLite store and a small cluster that runs real processes, kept in --data."""
    data = data.absolute()
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"--data {data}: {error.strerror}")
    cluster = LocalCluster(
        ClusterSettings(
            agents=agents, data=data / "mesos", ports=ports, attributes="rack:r{n};zone:z{n%2}", cluster="dev"
        )
    )
    end = EndSignal()
    try:
        cluster.start()
    except Exception as error:
        fail(f"cannot start the embedded cluster: {error}")
    # Everything is on this machine here, webhooks too.
    given = {"store.url": f"sqlite:///{data}/state.db", "mesos.url": cluster.url, "webhooks.local": "true"}
    try:
        settings = read_settings(None, {**given, "api.listen": listen, "log.level": log_level})
        configure_logging(settings.log)
        service = made(settings, end.fail)
        started(service)
        click.echo(f"api {service.url}")
        click.echo(f"mesos {cluster.url} ({agents} agents), data in {data}")
        click.echo(FIRST_COMMANDS.format(url=service.url))
        end.wait(service.reload)
        service.stop()
    finally:
        cluster.stop()
    end.tell()


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
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)

    def fail(self, reason: str) -> None:
        """The process ends in order as after SIGTERM, and with an error. Any thread."""
        self.failure = self.failure or reason
        self._written.send(bytes((signal.SIGTERM,)))

    def tell(self) -> None:
        """Ends the process with exit code 1 after a failure: unlike 2, the supervisor starts it again."""
        if self.failure:
            click.echo(f"bcs-scheduler: {self.failure}", err=True)
            sys.exit(1)

    def wait(self, hangup: Callable[[], None] = lambda: None) -> None:
        """Calls `hangup` for every SIGHUP, and returns at the other two."""
        while self._caught.recv(1) == bytes((signal.SIGHUP,)):
            hangup()


for command in (local_mesos, *keeping.COMMANDS):
    main.add_command(command)

if __name__ == "__main__":
    main()
