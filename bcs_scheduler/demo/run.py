"""`make demo`: the main job from end to end on the embedded cluster, with every step checked.

Starts `bcs-scheduler dev` as a separate process, and then works as a user: commands by `bcs`, checks by HTTP.
Exits with 0 only if every step ended within its time limit and no process is left.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Self, TypeVar

import requests
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from bcs_scheduler import processes
from bcs_scheduler.cli.client.client import Client
from bcs_scheduler.cli.client.types import DEFAULT_NAMESPACE, Json
from bcs_scheduler.cli.errors import CliError
from bcs_scheduler.cli.kinds.workloads.taskgroups import ports_of
from bcs_scheduler.cli.main import run as bcs
from bcs_scheduler.demo.rollout import show_rollouts
from bcs_scheduler.local.settings import PORT_STRIDE
from bcs_scheduler.shipped import EXAMPLES
from store import threads

AGENTS = 3
PORTS = 100
"""Per agent."""
START, LAUNCH, REPLACE, UPDATE, CHECK, DELETE, STOP = 20.0, 20.0, 15.0, 30.0, 25.0, 15.0, 15.0
"""Seconds each step may take."""
POLL = 0.05
CHANGES = ("apply", "scale", "update", "delete")

T = TypeVar("T")


class DemoError(Exception):
    """A step failed. The message names the step and the observed state."""


class Watch:
    """Polls the number of running taskgroups of `web` in a thread, and keeps the lowest."""

    def __init__(self, server: str) -> None:
        self.client = Client(server)
        self._over = threading.Event()
        self._thread = threads.lasting("watch", self._run, self._over.wait)
        self.lowest = sys.maxsize

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(POLL):
            try:
                found = self.client.application(DEFAULT_NAMESPACE, "web")
            except CliError:
                continue
            self.lowest = min(self.lowest, int(found["RunningInstances"]))


class Demo:
    """The steps of the demo. `run` executes them in order."""

    def __init__(self, console: Console, folder: Path) -> None:
        self._console = console
        self._log = folder / "scheduler.log"
        self._data = folder / "data"
        self._server: subprocess.Popen[str] | None = None
        self.client = Client()
        self._started = time.monotonic()

    def run(self) -> None:
        with self.step("scheduler started, with three embedded agents"):
            self._start()
        self.bcs("apply", "-f", str(EXAMPLES / "web.json"), "-f", str(EXAMPLES / "checked.json"))
        with self.step("five taskgroups Running"):
            self._until_running(5)
        with self.step("a page from each"):
            self._fetch_pages(5, "v1")
        self.bcs("get", "agents", "-o", "table")
        self.bcs("scale", "web", "8")
        with self.step("eight taskgroups Running"):
            self._until_running(8)
        self._kill_one()
        self._update()
        self._look_inside()
        self._fail_a_check()
        for kind in ("applications", "taskgroups", "transactions"):
            self.bcs("get", kind, "-o", "table")
        self.bcs("delete", "web", "checked")
        show_rollouts(self)
        self.bcs("delete", "deployment", "shop")
        self.bcs("delete", "service", "shop")
        with self.step("applications and taskgroups gone"):
            self.until(DELETE, lambda: not self._applications() or None, "an application is still there")
        with self.step("everything stopped"):
            self._stop()
        self._console.print(f"[bold green]done[/] in {time.monotonic() - self._started:.1f} s")
        self._console.print("console: `bcs-scheduler dev --open` starts the same and opens http://127.0.0.1:8080/")

    def clean_up(self) -> None:
        """Ends all processes of the demo."""
        processes.end_descendants()
        if self._server is not None:
            self._server.wait()

    # --- steps ------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        command = [sys.executable, "-m", "bcs_scheduler.main", "dev", "--agents", str(AGENTS)]
        first = processes.free_ports(PORTS, AGENTS, PORT_STRIDE)
        command += ["--data", str(self._data), "--api", "127.0.0.1:0", "--ports", f"{first}-{first + PORTS - 1}"]
        with self._log.open("w") as log:
            self._server = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        self.client = Client(self._url(self._server))

        def ready() -> bool | None:
            return requests.get(f"{self.client.server}/readyz", timeout=5).ok or None

        self.until(START, ready, "the scheduler is not ready")

    def _url(self, server: subprocess.Popen[str]) -> str:
        """The URL in the line ``api http://...``, which the scheduler prints when it listens."""
        assert server.stdout is not None
        deadline = time.monotonic() + START
        while time.monotonic() < deadline:
            if select.select([server.stdout], [], [], POLL)[0]:
                line = server.stdout.readline()
                if found := re.match(r"api (http://\S+)", line):
                    return found[1]
            if server.poll() is not None:
                break
        raise DemoError(f"bcs-scheduler dev did not start:\n{self._log.read_text().strip() or 'it printed nothing'}")

    def _until_running(self, wanted: int) -> None:
        def look() -> tuple[int, bool]:
            found = self.client.application(DEFAULT_NAMESPACE, "web")
            running = int(found["RunningInstances"])
            return running, running == wanted == found["Instances"] and found["Status"] == "Running"

        self.with_bar(LAUNCH, wanted, "Running", look)

    def _fetch_pages(self, wanted: int, version: str) -> None:
        """Waits until every taskgroup answers with its own page. A process listens a moment after its start."""
        pages: list[str] = []

        def look() -> tuple[int, bool]:
            groups = self._taskgroups()
            found = {int(group["InstanceID"]): self._page(group) or "" for group in groups}
            right = [page for index, page in found.items() if page.startswith(f"web {version} taskgroup {index} ")]
            pages[:] = right
            return len(right), len(right) == wanted == len(groups)

        self.with_bar(UPDATE, wanted, f"answering with {version}", look)
        self._console.print(f"  {pages[0]}", style="dim", markup=False)

    def _kill_one(self) -> None:
        """Kills one web server without the scheduler, as the kernel does when memory runs out."""
        assert self._server is not None
        victim = self._taskgroups()[3]
        port = ports_of(victim)[0][1]
        with self.step("a process killed without the scheduler"):
            pid = processes.listener(port)
            if pid is None or pid not in processes.descendants(self._server.pid):
                raise DemoError(f"no process of this demo listens on port {port}")
            os.kill(pid, signal.SIGKILL)
            self._console.print(f"  process {pid} of {victim['ID']}", style="dim", markup=False)

        def replaced() -> Json | None:
            for group in self._taskgroups():
                if group["InstanceID"] == victim["InstanceID"] and group["ID"] != victim["ID"]:
                    return group if group["Status"] == "Running" and self._page(group) else None
            return None

        with self.step("its taskgroup replaced"):
            new = self.until(REPLACE, replaced, f"{victim['ID']} was not replaced")
            self._console.print(f"  by {new['ID']} on {new['HostName']}", style="dim", markup=False)
            self._until_running(8)

    def _update(self) -> None:
        """Updates to the new version. At most two of eight taskgroups may be unavailable at the same time."""
        with Watch(self.client.server) as watch:
            self.bcs("update", "-f", str(EXAMPLES / "web-v2.json"))
            with self.step("the new version in all taskgroups, a few at a time"):
                self._fetch_pages(8, "v2")
                self._until_running(8)
                if watch.lowest < 6:
                    raise DemoError(f"only {watch.lowest} of 8 taskgroups were running at one moment")
                self._console.print(f"  at least {watch.lowest} of 8 were running all the time", style="dim")

    def _look_inside(self) -> None:
        """Runs a command in a taskgroup, and reads the output of all taskgroups."""
        shown = self.bcs("exec", "web-0", "--", "sh", "-c", 'echo "$BCS_POD_ID: VERSION is $VERSION"')
        with self.step("the command ran inside the taskgroup"):
            wanted = f"{self._taskgroups()[0]['ID']}: VERSION is v2\n"
            if shown != wanted:
                raise DemoError(f"it printed {shown!r} instead of {wanted!r}")
        printed = self.bcs("logs", "web", "--stderr", "--tail", "1")
        with self.step("the log of each taskgroup names the page that was fetched"):
            named = {line.partition(" | ")[0] for line in printed.splitlines() if '"GET / HTTP/1.1" 200' in line}
            if named != {group["Name"] for group in self._taskgroups()}:
                raise DemoError(f"only the logs of {', '.join(sorted(named))} do")

    def _fail_a_check(self) -> None:
        """Removes the page of a health check. The taskgroup must fail and be replaced."""

        def health() -> Json | None:
            """The task of index 0; None before the first result of a health check."""
            groups = self._taskgroups("checked")
            tasks = [group["Taskgroup"][0] for group in groups if group["InstanceID"] == 0]
            return {**tasks[0], "group": groups[0]["ID"]} if tasks and tasks[0]["IsChecked"] else None

        def healthy() -> Json | None:
            task = health()
            return task if task and task["Healthy"] and task["Status"] == "Running" else None

        with self.step("health checks passing"):
            first = self.until(CHECK, healthy, "checked-0 is not healthy")
        self.bcs("exec", "checked-0", "--", "rm", "page/health")

        def failing() -> str | None:
            task = health()
            failed = [check for check in (task or first)["HealthCheckStatus"] if not check["result"]]
            return f"{failed[0]['type']}: {failed[0]['message']}" if failed else None

        with self.step("a health check failing"):
            self._console.print(f"  {self.until(CHECK, failing, 'no check fails')}", style="dim", markup=False)

        def recovered() -> Json | None:
            task = healthy()
            return task if task and task["group"] != first["group"] else None

        with self.step("the taskgroup restarted, and healthy again"):
            new = self.until(CHECK, recovered, "checked-0 was not restarted")
            self._console.print(f"  as {new['group']} on {new['AgentHostname']}", style="dim", markup=False)
        self.bcs("get", "tasks", "checked", "-o", "table")

    def _stop(self) -> None:
        assert self._server is not None
        self._server.send_signal(signal.SIGTERM)
        try:
            code = self._server.wait(STOP)
        except subprocess.TimeoutExpired:
            raise DemoError(f"bcs-scheduler dev did not stop within {STOP:g} s") from None
        if code != 0:
            raise DemoError(f"bcs-scheduler dev ended with {code}:\n{self._log.read_text().strip()}")
        if left := processes.living_descendants(os.getpid()):
            raise DemoError(f"processes are left: {', '.join(map(str, left))}")

    # --- helpers ----------------------------------------------------------------------------------------------

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        except (DemoError, CliError, requests.RequestException) as error:
            raise DemoError(f"{title}: {error}") from error
        self._console.print(f"[green]✓[/] {title} [dim]{time.monotonic() - begun:.1f} s[/]")

    def until(self, seconds: float, look: Callable[[], T | None], failure: str) -> T:
        """The first result of `look` that is not None. Errors of the server count as None."""
        deadline = time.monotonic() + seconds
        seen = ""
        while time.monotonic() < deadline:
            try:
                found = look()
                if found is not None:
                    return found
            except (CliError, requests.RequestException) as error:
                seen = f" ({error})"
            if self._server is not None and self._server.poll() is not None:
                raise DemoError(f"the scheduler ended with {self._server.returncode}:\n{self._log.read_text().strip()}")
            time.sleep(POLL)
        raise DemoError(f"{failure} after {seconds:g} s{seen}")

    def with_bar(self, seconds: float, wanted: int, word: str, look: Callable[[], tuple[int, bool]]) -> None:
        columns = (TextColumn("  {task.description}"), BarColumn(30), MofNCompleteColumn())
        watched_by_people = self._console.is_terminal
        with Progress(*columns, console=self._console, transient=True, disable=not watched_by_people) as progress:
            bar = progress.add_task(word, total=wanted)

            def watched() -> bool | None:
                done, ended = look()
                progress.update(bar, completed=done)
                return ended or None

            self.until(seconds, watched, f"not all {wanted} taskgroups are {word}")

    def say(self, text: str) -> None:
        self._console.print(f"  {text}", style="dim", markup=False)

    def _applications(self) -> list[Json]:
        return self.client.applications(DEFAULT_NAMESPACE)

    def _taskgroups(self, application: str = "web") -> list[Json]:
        groups = self.client.taskgroups(DEFAULT_NAMESPACE, application)
        return sorted(groups, key=lambda group: int(group["InstanceID"]))

    def _page(self, group: Json) -> str | None:
        """The page of the taskgroup's web server; None if the server does not answer."""
        if not ports_of(group):
            return None
        try:
            return requests.get(f"http://127.0.0.1:{ports_of(group)[0][1]}/", timeout=2).text.strip()
        except requests.RequestException:
            return None

    def bcs(self, *arguments: str, given: str = "", piped: str = "", code: int = 0) -> str:
        """Runs a command of the user and shows the command with its output; changes print as on a terminal. Runs in
        this process, because the start of a Python for each command takes most of the time on a loaded machine. `given`
        is the standard input of the command, `piped` the text that a user would type before it. Raises DemoError unless
        the command ends with `code`."""
        form = ["-o", "text"] if arguments[0] in CHANGES else []
        shown = shlex.join(os.path.relpath(a) if a.startswith("/") else a for a in arguments)
        self._console.print(f"\n[bold]$ {f'{piped} | ' if piped else ''}bcs {shown}[/]", highlight=False)
        out, err = (TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with redirect_stdout(out), redirect_stderr(err), _standard_input(given):
            ended = bcs(["--server", self.client.server, "--namespace", DEFAULT_NAMESPACE, *arguments, *form])
        printed, complaint = (stream.buffer.getvalue().decode() for stream in (out, err))
        if printed:
            self._console.out(printed.rstrip("\n"), highlight=False)
        if ended != code:
            raise DemoError(f"bcs {shown} ended with {ended} instead of {code}: {complaint.strip()}")
        return printed


@contextmanager
def _standard_input(text: str) -> Iterator[None]:
    before, sys.stdin = sys.stdin, StringIO(text)
    try:
        yield
    finally:
        sys.stdin = before


def main() -> int:
    console = Console(highlight=False)
    processes.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="bcs-demo-") as folder:
        demo = Demo(console, Path(folder))
        try:
            demo.run()
        except (DemoError, CliError, OSError, subprocess.TimeoutExpired) as error:
            console.print("[bold red]the demo failed:[/] ", end="")
            console.print(str(error), markup=False)
            return 1
        except KeyboardInterrupt:
            return 130
        finally:
            demo.clean_up()
    return 0
