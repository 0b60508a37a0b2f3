"""The processes of a soak, and what is done to them: everything that is killed, suspended or cut off comes back."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random

from tests.integration.chaos import role_of
from tests.integration.gate import AddressGate, Gate, masters_behind_gates
from tests.integration.mesoscluster import RealMesos, send_signal
from tests.integration.schedulerprocess import SchedulerProcess
from tests.integration.zookeeperensemble import ZooKeeperEnsemble
from tests.waiting import wait_for

SESSION_SECONDS = 4
PATIENCE = 2
"""Seconds without a subscription after which a leader looks for a scheduler that reaches Mesos (mesos.patience)."""
SCALARS = "cpus:8;mem:8192;disk:8192"
DECISIONS = "decisions"
"""The folder of a scheduler's decision logs, in the folder of the scheduler."""


def _open(gates: Iterable[Gate]) -> None:
    for gate in gates:
        gate.open()


class Faults:
    """Three masters, three agents, an ensemble, and three schedulers behind gates."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.replaced = 0
        """Members of the ensemble that had lost a transaction (ZooKeeperEnsemble.replace_damaged)."""
        self._random = Random(f"{seed} faults")
        environment = {
            "REALMESOS_SCALARS": SCALARS,
            "MESOS_RECOVERY_TIMEOUT": "15mins",
        }
        self.mesos = RealMesos(folder / "mesos", kind="ha", environment=environment)
        self.ensemble = ZooKeeperEnsemble(folder / "zookeeper")
        self._gates: list[list[Gate]] = []
        """By scheduler, in front of the members of the ensemble."""
        self._mesos_gates: list[list[AddressGate]] = []
        """By scheduler, in front of the masters."""
        self._zookeeper_gates: list[AddressGate] = []
        """By scheduler, in front of the ZooKeeper that elects the master."""
        self.schedulers: list[SchedulerProcess] = []
        self._suspended: dict[str, Callable[[], None]] = {}
        """What undoes each suspension or partition that stands."""
        self._down_agents: set[str] = set()
        self.settings: dict[str, str] = {}
        """Settings of the schedulers beside those that every soak needs."""

    # --- life -------------------------------------------------------------------------------------------------------

    def start_processes(self) -> None:
        """Returns when a scheduler leads."""
        (self.folder / "mesos").mkdir()
        self.mesos.start()
        self.ensemble.start()
        for number in range(3):
            gates = [Gate(member.port) for member in self.ensemble.members]
            self._gates.append(gates)
            masters, zookeeper = masters_behind_gates(self.mesos)
            self._mesos_gates.append(masters)
            self._zookeeper_gates.append(zookeeper)
            folder = self.folder / f"scheduler-{number}"
            (folder / DECISIONS).mkdir(parents=True)
            settings = {
                "decisions__folder": str(folder / DECISIONS),
                "store__session_timeout": str(SESSION_SECONDS),
                "scheduler__kill_retry": "1",
                "executor__default": "bcs",
                "mesos__patience": str(PATIENCE),
                **self.settings,
            }
            hosts = ",".join(gate.address for gate in gates)
            self.schedulers.append(
                SchedulerProcess(folder, f"zk://{hosts}/soak", f"zk://{zookeeper.address}/mesos", **settings)
            )
        for scheduler in self.schedulers:
            scheduler.start()
        self._leader(60)

    def undo(self) -> None:
        """Ends suspensions and partitions; does not fail if a process is gone."""
        for undo in self._suspended.values():
            with suppress(OSError, AssertionError):
                undo()

    def stop_processes(self) -> None:
        for scheduler in self.schedulers:
            scheduler.kill()
        for gate in (*chain(*self._gates, *self._mesos_gates), *self._zookeeper_gates):
            gate.stop()
        self.mesos.stop()
        self.ensemble.stop()

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

    def _leader(self, seconds: float) -> SchedulerProcess:
        return wait_for(lambda: next((s for s in self._running() if role_of(s) == "master"), None), seconds, "a leader")

    def _running(self) -> list[SchedulerProcess]:
        suspended = {name for name in self._suspended if name.startswith("scheduler")}
        return [s for n, s in enumerate(self.schedulers) if s.runs and f"scheduler {n}" not in suspended]

    def _pass(self, seconds: float) -> None:
        """Time passes while the users work: the faults are what this program is about, not a condition."""
        time.sleep(seconds)

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
        self._suspended[f"gate {number}"] = partial(_open, self._gates[number])
        return True

    def _fault_scheduler_cut_off_from_mesos(self) -> bool:
        """It reaches its store. Calls and events are lost, or held up until the network is back."""
        number = self._chosen()
        if number is None or f"mesos gate {number}" in self._suspended:
            return False
        gates = self._mesos_gates[number]
        lost = self._random.random() < 0.7
        for gate in gates:
            (gate.cut if lost else gate.close)()
        self._suspended[f"mesos gate {number}"] = partial(_open, gates)
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
