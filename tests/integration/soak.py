"""Faults every few seconds on a real Mesos, for minutes or hours, and one rule that is checked after every round.

    make soak MINUTES=30            or  python -m tests.integration.soak --minutes 30 [--seed N] [--keep]
                                                  [--placeholders sleep|reserve|hold]

Three masters, a ZooKeeper ensemble of three for the store, one more ZooKeeper for Mesos, three schedulers and three
agents run as processes. Each scheduler reaches its store and Mesos through gates of its own, so it can be cut off from
either. Taskgroups run on both executors; users create, scale, update, reschedule and delete, with and without
`enforce`. A round is: some faults, one after the other, while the users work; then the users rest and everything that
was stopped is started again. From the moment when Mesos, its agents and a leader are in contact again, within SETTLED
seconds:

* no process runs that belongs to no live record (an orphan), and each live record has exactly one task process
* each index of each application is held by one Running taskgroup, and all operations have ended
* what users were promised holds (tests.integration.chaosusers)
* with ``--placeholders``: what queues, gangs and reservations promise (tests.integration.soakpolicies)

The run ends after the round in which the time is over, or at once after a violation; then the evidence lies in the
folder that is printed, and the exit code is 1: `evidence.txt`, the logs, and the decision logs of all schedulers, which
`bcs-scheduler replay` repeats. The load is bounded: at most USERS * 3 * MOST taskgroups.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import FrameType

import requests

from tests.integration import soakpolicies
from tests.integration.chaos import BAD_LINES, role_of
from tests.integration.chaosusers import User
from tests.integration.schedulerprocess import SchedulerProcess
from tests.integration.soakfaults import Faults
from tests.integration.soakpolicies import FORMS, LEAST, Policies
from tests.integration.soakrules import broken_promises, settling
from tests.waiting import wait_for

SETTLED = 30.0
"""Seconds after contact within which the rule must hold."""
CONTACT = 150.0
"""Seconds that the processes of Mesos, ZooKeeper and the schedulers have to find each other after a round."""
HANDED_OVER = ("giving up leadership", "reaches the master")
"""What is in the one line that a leader logs when it gives up the lead to a scheduler that reaches Mesos."""
USERS, MOST = 2, 3
CHANGING = 0.4
"""The part of the rounds that begins with a change of the tree of queues."""


class Soak(Faults):
    def __init__(self, folder: Path, seed: int, policies: Policies | None = None) -> None:
        """`policies`: queues, gangs and reservations; None: the policy `simple`, with small taskgroups."""
        super().__init__(folder, seed)
        self.policies = policies
        users, least, shape = (1, LEAST, policies.shape) if policies is not None else (USERS, 1, lambda made: None)
        self.settings = policies.settings if policies is not None else {}
        self.faults: Counter[str] = Counter()
        self.rounds = 0
        self.settle_times: list[float] = []
        self.contact_times: list[float] = []
        self._story: list[str] = []
        self.users = [
            User(seed, number, lambda: [s.url for s in self.schedulers], ("bcs", "mesos"), MOST, 12.0, least, shape)
            for number in range(users)
        ]

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.start_processes()
        if self.policies is not None:
            self.policies.prepare(self._contact())
        for user in self.users:
            user.thread.start()

    def stop(self) -> None:
        """Ends every process by its id; does not fail if some of them are gone."""
        self.undo()
        for user in self.users:
            with suppress(AssertionError, RuntimeError):
                user.stop()
        self.stop_processes()

    def run(self, minutes: float, rounds: int = 1) -> list[str]:
        """Rounds until the time is over and there were at least so many; what is wrong, as lines: empty if all is
        well."""
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end or self.rounds < rounds:
            found = self.round()
            if found:
                return found
        return self._errors_in_logs()

    # --- one round --------------------------------------------------------------------------------------------------

    def round(self) -> list[str]:
        self.rounds += 1
        for user in self.users:
            user.work()
        began = time.monotonic()
        faults = [name for name in dir(self) if name.startswith("_fault_")]
        if self.policies is not None and self._random.random() < CHANGING:
            self.policies.change(self._random.choice(self._running()).url)
        for name in self._random.choices(faults, k=self._random.randint(2, 4)):
            if getattr(self, name)():
                self.faults[name.removeprefix("_fault_")] += 1
                self._tell(name.removeprefix("_fault_"))
            self._pass(self._random.uniform(0.3, 5.0))
        for user in self.users:
            user.rest()
        self._heal()
        leader = self._contact()
        contact = time.monotonic()
        seen: list[str] = []

        def settled() -> bool:
            with suppress(requests.RequestException, AssertionError):
                seen[:] = settling(leader, self.mesos, self.policies)
                return not seen
            return False

        try:
            wait_for(settled, SETTLED if self.policies is None else soakpolicies.SETTLED, lambda: "; ".join(seen))
        except AssertionError:
            return self._evidence(seen, leader)
        self.settle_times.append(time.monotonic() - contact)
        self.contact_times.append(contact - began)
        print(
            f"round {self.rounds}: settled {self.settle_times[-1]:.1f} s after contact; {', '.join(self._story)}",
            flush=True,
        )
        self._story.clear()
        promises = [line for user in self.users for line in (*user.complaints, *broken_promises(user, leader))]
        return self._evidence(promises, leader) if promises else []

    def _tell(self, what: str) -> None:
        self._story.append(what)

    def _contact(self) -> SchedulerProcess:
        """Waits until a master leads, all agents are registered with it, and a scheduler leads and is subscribed."""
        deadline = time.monotonic() + CONTACT

        def in_contact() -> SchedulerProcess | None:
            for name in self.mesos.masters:  # the processes that a change of leaders has ended
                self._start_mesos(name)
            for name in self.mesos.agents:
                self._start_mesos(name)
            try:
                state = self.mesos.state()
            except (KeyError, OSError, ValueError):
                return None
            if len([agent for agent in state["slaves"] if agent["active"]]) < len(self.mesos.agents):
                return None
            if not any(framework["active"] for framework in state["frameworks"]):
                return None
            leaders = [s for s in self.schedulers if s.runs and role_of(s) == "master" and s.ready()]
            return leaders[0] if len(leaders) == 1 else None

        return wait_for(in_contact, deadline - time.monotonic(), lambda: f"contact (seed {self.seed}): {self._story}")

    def _evidence(self, found: list[str], leader: SchedulerProcess) -> list[str]:
        """Writes what is known about a violation and returns its lines."""
        lines = [f"round {self.rounds}, faults {', '.join(self._story)}:", *found]
        document = [*lines]
        leaders = [s for s in self._running() if role_of(s) == "master"] or [leader]  # the lead may have changed hands
        for path in ("/taskgroups", "/transactions", "/agents"):
            document += ["", f"--- {path}"]
            with suppress(requests.RequestException, AssertionError):
                document += map(str, leaders[0].call("GET", path, limit=1000))
        document += ["--- processes", *map(str, self.mesos.processes().items())]
        for number, scheduler in enumerate(self.schedulers):
            document += [f"--- scheduler {number}", scheduler.log()[-60_000:]]
        (self.folder / "evidence.txt").write_text("\n".join(document))
        return lines

    def _errors_in_logs(self) -> list[str]:
        found = []
        for log in sorted(self.folder.glob("scheduler-*/*.log")):
            text = log.read_text(errors="replace")
            found += [f"{log.parent.name}/{log.name}: {line}" for line in BAD_LINES if line in text]
        return found

    def _handovers(self) -> int:
        """Leaders that were cut off from Mesos and gave up the lead (bcs_scheduler.leadership.handover)."""
        logs = self.folder.glob("scheduler-*/*.log")
        lines = (line for log in logs for line in log.read_text(errors="replace").splitlines())
        return sum(all(words in line for words in HANDED_OVER) for line in lines)

    def report(self) -> str:
        """Rounds, faults by kind, and how long it took to settle after contact."""
        times = sorted(self.settle_times) or [0.0]
        operations: Counter[str] = Counter()
        for user in self.users:
            operations.update(user.answers)
        return "\n".join(
            [
                f"seed {self.seed}: {self.rounds} rounds, {sum(self.faults.values())} faults",
                f"settled after contact: median {times[len(times) // 2]:.1f} s, worst {times[-1]:.1f} s",
                "faults: " + ", ".join(f"{name} {count}" for name, count in self.faults.most_common()),
                f"leads given to a scheduler that reached Mesos: {self._handovers()}",
                f"members of the ensemble that were damaged and replaced: {self.replaced}",
                "answers to users: " + ", ".join(f"{name} {count}" for name, count in operations.most_common()),
                *([self.policies.report(self.folder)] if self.policies is not None else []),
            ]
        )


class Interrupted(Exception):
    """The program is asked to end."""


def _interrupted(number: int, frame: FrameType | None) -> None:
    """A run that is ended from outside must end its processes too. SIGHUP comes from the kernel if the terminal is
    closed, and if the shell that began the run ends while a process of the run is suspended."""
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(f"ended by {signal.Signals(number).name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", action="store_true", help="keep logs and data although all went well")
    parser.add_argument(
        "--placeholders",
        choices=FORMS,
        help="hierarchical queues, gangs, and reservations with placeholders of this form",
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    folder.chmod(0o755)
    print(f"seed {options.seed}; logs and data in {folder}", flush=True)
    policies = Policies(options.placeholders, options.seed) if options.placeholders else None
    soak = Soak(folder, options.seed, policies)
    found = ["the run did not end"]
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    try:
        soak.start()
        found = soak.run(options.minutes)
    except (AssertionError, RuntimeError, Interrupted) as error:
        found = [str(error)]
    finally:
        soak.stop()
    print(soak.report())
    print(*found, sep="\n")
    print(f"{len(found)} violations")
    if not found and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
