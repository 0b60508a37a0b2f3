"""Faults every few seconds on a real Mesos, for minutes or hours, and one rule that is checked after every round.

    make soak MINUTES=30            or  python -m tests.integration.soak --minutes 30 [--seed N] [--keep]

Three masters, a ZooKeeper ensemble of three for the store, one more ZooKeeper for Mesos, three schedulers and three
agents run as processes; taskgroups run on both executors; users create, scale, update, reschedule and delete, with and
without `enforce`. A round is: some faults, one after the other, while the users work; then the users rest and
everything that was stopped is started again. From the moment when Mesos, its agents and a leader are in contact again,
within SETTLED seconds:

* no process runs that belongs to no live record (an orphan), and each live record has exactly one task process
* each index of each application is held by one Running taskgroup, and all operations have ended
* what users were promised holds (tests.integration.chaosusers)

The run ends after the round in which the time is over, or at once after a violation; then the evidence lies in the
folder that is printed, and the exit code is 1. The load is bounded: at most USERS * 3 * MOST taskgroups.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import requests

from tests.integration.chaos import BAD_LINES, role_of
from tests.integration.chaosusers import User
from tests.integration.gate import Gate
from tests.integration.mesoscluster import RealMesos, send_signal
from tests.integration.schedulerprocess import SchedulerProcess
from tests.integration.soakrules import broken_promises, settling
from tests.integration.zookeeperensemble import ZooKeeperEnsemble
from tests.waiting import wait_for

SETTLED = 30.0
"""Seconds after contact within which the rule must hold."""
CONTACT = 150.0
"""Seconds that the processes of Mesos, ZooKeeper and the schedulers have to find each other after a round."""
SESSION_SECONDS = 4
USERS, MOST = 2, 3
SCALARS = "cpus:8;mem:8192;disk:8192"


class Soak:
    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self._random = Random(f"{seed} faults")
        self.faults: Counter[str] = Counter()
        self.rounds = 0
        self.replaced = 0
        """Members of the ensemble that had lost a transaction (ZooKeeperEnsemble.replace_damaged)."""
        self.settle_times: list[float] = []
        self.contact_times: list[float] = []
        self._story: list[str] = []
        environment = {
            "REALMESOS_SCALARS": SCALARS,
            "MESOS_RECOVERY_TIMEOUT": "15mins",
        }
        self.mesos = RealMesos(folder / "mesos", kind="ha", environment=environment)
        self.ensemble = ZooKeeperEnsemble(folder / "zookeeper")
        self._gates: list[list[Gate]] = []
        self.schedulers: list[SchedulerProcess] = []
        self.users = [
            User(seed, number, lambda: [s.url for s in self.schedulers], ("bcs", "mesos"), MOST, patience=12.0)
            for number in range(USERS)
        ]
        self._suspended: dict[str, Callable[[], None]] = {}
        """What undoes each suspension or partition that stands."""
        self._down_agents: set[str] = set()

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        (self.folder / "mesos").mkdir()
        self.mesos.start()
        self.ensemble.start()
        for number in range(3):
            gates = [Gate(member.port) for member in self.ensemble.members]
            self._gates.append(gates)
            folder = self.folder / f"scheduler-{number}"
            folder.mkdir()
            settings = {
                "store__session_timeout": str(SESSION_SECONDS),
                "scheduler__kill_retry": "1",
                "executor__default": "bcs",
            }
            hosts = ",".join(gate.address for gate in gates)
            self.schedulers.append(SchedulerProcess(folder, f"zk://{hosts}/soak", self.mesos.zk_url, **settings))
        for scheduler in self.schedulers:
            scheduler.start()
        self._leader(60)
        for user in self.users:
            user.thread.start()

    def stop(self) -> None:
        """Ends every process by its id; does not fail if some of them are gone."""
        for undo in self._suspended.values():
            with suppress(OSError, AssertionError):
                undo()
        for user in self.users:
            with suppress(AssertionError, RuntimeError):
                user.stop()
        for scheduler in self.schedulers:
            scheduler.kill()
        for gate in (gate for gates in self._gates for gate in gates):
            gate.stop()
        self.mesos.stop()
        self.ensemble.stop()

    def run(self, minutes: float) -> list[str]:
        """Rounds until the time is over; what is wrong, as lines: empty if all is well."""
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
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
                seen[:] = settling(leader, self.mesos)
                return not seen
            return False

        try:
            wait_for(settled, SETTLED, lambda: "; ".join(seen))
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

    def _pass(self, seconds: float) -> None:
        """Time passes while the users work: the faults are what this program is about, not a condition."""
        time.sleep(seconds)

    def _heal(self) -> None:
        """Everything that was stopped comes back, in any order, agents with pauses between them."""
        for name in self._random.sample(sorted(self._suspended), len(self._suspended)):
            self._suspended.pop(name)()
        self.ensemble.heal()
        self.replaced += self.ensemble.replace_damaged()
        self._start_mesos("zk")
        for name in self.mesos.masters:
            self._start_mesos(name)
        for scheduler in self.schedulers:
            if not scheduler.runs:
                scheduler.start()
        for name in self._random.sample(sorted(self._down_agents), len(self._down_agents)):
            self._start_mesos(name)
            self._pass(self._random.choice([0.0, 0.0, 4.0]))
        self._down_agents.clear()

    def _start_mesos(self, name: str) -> None:
        for _ in range(3):  # a master ends by itself when it has lost the lead while it was suspended
            if self.mesos.pid_of(name) is None:
                with suppress(RuntimeError):
                    self.mesos.start_process(name)
        if self.mesos.pid_of(name) is None:
            raise RuntimeError(f"{name} does not start: {self.mesos.log(name)[-2000:]}")

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

    def _leader(self, seconds: float) -> SchedulerProcess:
        return wait_for(lambda: next((s for s in self._running() if role_of(s) == "master"), None), seconds, "a leader")

    def _running(self) -> list[SchedulerProcess]:
        suspended = {name for name in self._suspended if name.startswith("scheduler")}
        return [s for n, s in enumerate(self.schedulers) if s.runs and f"scheduler {n}" not in suspended]

    def _evidence(self, found: list[str], leader: SchedulerProcess) -> list[str]:
        """Writes what is known about a violation and returns its lines."""
        lines = [f"round {self.rounds}, faults {', '.join(self._story)}:", *found]
        document = [*lines, "", "--- task groups"]
        with suppress(requests.RequestException, AssertionError):
            document += map(str, leader.call("GET", "/taskgroups", limit=1000))
            document += ["--- transactions", *map(str, leader.call("GET", "/transactions", limit=1000))]
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
                f"members of the ensemble that were damaged and replaced: {self.replaced}",
                "answers to users: " + ", ".join(f"{name} {count}" for name, count in operations.most_common()),
            ]
        )

    # --- faults of schedulers -----------------------------------------------------------------------------------------

    def _chosen(self) -> int | None:
        """Number of a scheduler to hurt: the leader twice as often as others."""
        running = self._running()
        leading = [s for s in running if role_of(s) == "master"]
        choices = [*leading, *leading, *running]
        return self.schedulers.index(self._random.choice(choices)) if choices else None

    def _fault_scheduler_killed(self) -> bool:
        number = self._chosen()
        if number is None:
            return False
        self.schedulers[number].kill()
        if self._random.random() < 0.6:
            self.schedulers[number].start()
        return True

    def _fault_scheduler_stopped(self) -> bool:
        number = self._chosen()
        if number is None:
            return False
        self.schedulers[number].stop()
        self.schedulers[number].start()
        return True

    def _fault_scheduler_suspended(self) -> bool:
        number = self._chosen()
        if number is None:
            return False
        self.schedulers[number].suspend()
        self._suspended[f"scheduler {number}"] = self.schedulers[number].resume
        return True

    def _fault_scheduler_cut_off_from_the_store(self) -> bool:
        number = self._chosen()
        if number is None or f"gate {number}" in self._suspended:
            return False
        for gate in self._gates[number]:
            gate.close()
        self._suspended[f"gate {number}"] = lambda: [gate.open() for gate in self._gates[number]] and None
        return True

    # --- faults of Mesos ----------------------------------------------------------------------------------------------

    def _master(self) -> str:
        leader = self.mesos.leader()
        names = [name for name in self.mesos.masters if self.mesos.pid_of(name) and name not in self._suspended]
        return self._random.choice([leader, leader, *names] if leader in names else names or [""])

    def _fault_master_killed(self) -> bool:
        name = self._master()
        if name:
            self.mesos.kill_process(name)
        return bool(name)

    def _fault_master_stopped(self) -> bool:
        name = self._master()
        if name:
            self.mesos.stop_process(name)
        return bool(name)

    def _fault_master_suspended(self) -> bool:
        name = self._master()
        if name:
            self.mesos.suspend_process(name)
            self._suspended[name] = lambda: self.mesos.resume_process(name)
        return bool(name)

    def _fault_mesos_zookeeper_suspended(self) -> bool:
        if "zk" in self._suspended:
            return False
        self.mesos.suspend_process("zk")
        self._suspended["zk"] = lambda: self.mesos.resume_process("zk")
        return True

    def _agent(self) -> str:
        names = [name for name in self.mesos.agents if self.mesos.pid_of(name) and name not in self._suspended]
        return self._random.choice(names or [""])

    def _fault_agent_killed(self) -> bool:
        name = self._agent()
        if name:
            self.mesos.kill_agent(name)
            self._down_agents.add(name)
        return bool(name)

    def _fault_agent_loses_power(self) -> bool:
        name = self._agent()
        if name:
            self.mesos.kill_agent(name, with_tasks=True)
            self._down_agents.add(name)
        return bool(name)

    def _fault_agent_restarted(self) -> bool:
        name = self._agent()
        if name:
            self.mesos.kill_process(name)
            self.mesos.start_process(name)
        return bool(name)

    def _fault_agent_suspended(self) -> bool:
        name = self._agent()
        if name:
            self.mesos.suspend_process(name)
            self._suspended[name] = lambda: self.mesos.resume_process(name)
        return bool(name)

    def _fault_agent_late_after_failover(self) -> bool:
        """The leading master goes, and one agent comes back to the next one later than the others."""
        name, leader = self._agent(), self.mesos.leader()
        if not name or not leader or leader in self._suspended:
            return False
        self.mesos.suspend_process(name)
        self._suspended[name] = lambda: self.mesos.resume_process(name)
        self.mesos.kill_process(leader)
        return True

    # --- faults of executors and tasks --------------------------------------------------------------------------------

    def _processes(self, words: tuple[str, ...]) -> list[int]:
        """Processes of executors and tasks whose command line has one of the words."""
        found = []
        for agent in self.mesos.agents:
            for pid in self.mesos.task_pids(agent):
                with suppress(OSError):
                    line = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
                    if any(word in line for word in words):
                        found.append(pid)
        return found

    def _hurt(self, words: tuple[str, ...], number: signal.Signals) -> int | None:
        pids = self._processes(words)
        if not pids:
            return None
        pid = self._random.choice(pids)
        send_signal(pid, number)
        return pid

    def _fault_executor_killed(self) -> bool:
        return self._hurt(("bcs-executor", "mesos-default-executor"), signal.SIGKILL) is not None

    def _fault_task_killed(self) -> bool:
        return self._hurt(("sleep",), signal.SIGKILL) is not None

    def _fault_executor_suspended(self) -> bool:
        pid = self._hurt(("bcs-executor", "mesos-default-executor"), signal.SIGSTOP)
        if pid is not None:
            self._suspended[f"process {pid}"] = lambda: send_signal(pid, signal.SIGCONT)
        return pid is not None

    # --- faults of the store ------------------------------------------------------------------------------------------

    def _fault_zookeeper_killed(self) -> bool:
        member = self._random.choice([m for m in self.ensemble.members if m.runs] or [None])
        if member is not None:
            member.kill()
        return member is not None

    def _fault_zookeeper_suspended(self) -> bool:
        member = self._random.choice([m for m in self.ensemble.members if m.runs] or [None])
        if member is not None:
            member.suspend()
        return member is not None

    def _fault_zookeeper_without_quorum(self) -> bool:
        members = [member for member in self.ensemble.members if member.runs][:2]
        for member in members:
            member.kill()
        return bool(members)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", action="store_true", help="keep logs and data although all went well")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    folder.chmod(0o755)
    print(f"seed {options.seed}; logs and data in {folder}", flush=True)
    soak = Soak(folder, options.seed)
    found = ["the run did not end"]
    try:
        soak.start()
        found = soak.run(options.minutes)
    except (AssertionError, RuntimeError) as error:
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
