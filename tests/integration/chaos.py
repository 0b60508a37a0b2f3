"""An operator's bad day: processes die, stand still and come back, the network to Mesos breaks, agents vanish, messages
are lost and repeated, while users do what they like. Everything is real but the agents' machines.

    python -m tests.integration.chaos [--store zookeeper|sqlite] [--rounds N] [--seed N]

runs it longer than the tests do. The seed decides what is tried, in which order; when it happens is up to the machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import requests

from bcs_scheduler.settings.sections import SchedulerSettings
from store.records import Executor
from tests.integration.chaosusers import MOST_INSTANCES, User
from tests.integration.localmesos import LocalMesosProcess
from tests.integration.schedulerprocess import SchedulerProcess
from tests.integration.zookeeper import ZooKeeperServer
from tests.waiting import wait_for

Record = dict[str, Any]
SESSION_SECONDS = 1.5
MOST = 3
"""Taskgroups of an application on our executor, each of which starts two processes of Python."""
AGENTS = ("agent-1", "agent-2", "agent-3")
KEPT = SchedulerSettings().transaction_keep
"""Ended transactions that users have begun, of each application: older ones may be gone."""
CONVERGENCE = 60.0
BAD_LINES = ("Traceback", "thread.failed", "task.failed", "change of role failed", "store failed")


class Chaos:
    """Two schedulers, a cluster of three agents, some users, and the one who breaks things."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        store: str,
        zookeeper: ZooKeeperServer | None,
        users: int = 2,
        executor: Executor = "mesos",
        decisions: Path | None = None,
    ) -> None:
        """`zookeeper`: the server of the store, if it is to be hurt too. `executor`: what runs the taskgroups.
        `decisions`: where each scheduler keeps its decision log; None: nowhere."""
        self.seed = seed
        self._executor = executor
        self._random = Random(f"{seed} faults")
        self._zookeeper = zookeeper
        self._decisions = decisions
        self.cluster = LocalMesosProcess(folder, "--ports=21000-21099", "--cpus=4")
        self.cluster.start()
        self.schedulers = [self._scheduler(folder / name, store) for name in ("first", "second")]
        most = MOST if executor == "bcs" else MOST_INSTANCES
        self.users = [User(seed, number, self._servers, most=most) for number in range(users)]
        self._away: set[str] = set()
        """Agents that are cut off or dead."""

    def _scheduler(self, folder: Path, store: str) -> SchedulerProcess:
        folder.mkdir()
        settings = {
            "store__session_timeout": str(SESSION_SECONDS),
            "scheduler__kill_retry": "1",
            "scheduler__staging_timeout": "3",
            "scheduler__offer_hold": "1",
            "executor__default": self._executor,
        }
        if self._decisions is not None:
            settings["decisions__folder"] = str(self._decisions / folder.name)
        return SchedulerProcess(folder, store, self.cluster.url, **settings).start()

    def _servers(self) -> list[str]:
        return [scheduler.url for scheduler in self.schedulers]

    def whole(self, rounds: int) -> list[str]:
        """The bad day and what follows; returns what is wrong in the end. Fails the test if it does not settle."""
        self.run(rounds)
        self.heal()
        return self.violations(self.converge())

    # --- the bad day ------------------------------------------------------------------------------------------

    def run(self, rounds: int) -> None:
        """Every fault once in each round, in any order."""
        self.leader()
        for user in self.users:
            user.thread.start()
        faults = [
            self._kill_leader, self._suspend_leader, self._stop_leader, self._restart_standby, self._break_stream,
            self._rescind, self._lose_agent, self._lose_agent, self._return_agent, self._return_agent,
            self._repeat_updates, self._drop_updates, self._delay_updates, self._fail_tasks,
        ]  # fmt: skip
        if self._zookeeper is not None:
            faults += [self._suspend_zookeeper, self._kill_zookeeper]
        for _ in range(rounds):
            for fault in self._random.sample(faults, len(faults)):
                fault()
                self._let_users(self._random.randint(1, 12))

    def _let_users(self, operations: int) -> None:
        """Goes on when the users have had so many answers, or when they get none."""
        before = self._answers()
        over = time.monotonic() + 3.0
        wait_for(lambda: self._answers() >= before + operations or time.monotonic() > over)

    def _answers(self) -> int:
        return sum(sum(user.answers.values()) for user in self.users)

    def leader(self) -> SchedulerProcess:
        """Waits until one leads and is ready."""
        return wait_for(self._leaders, 40, lambda: f"a leader: {[s.log()[-1500:] for s in self.schedulers]}")[0]

    def _leaders(self, *, but: SchedulerProcess | None = None) -> list[SchedulerProcess]:
        return [one for one in self.schedulers if one is not but and role_of(one) == "master"]

    def _kill_leader(self) -> None:
        leader = self.leader()
        leader.kill()
        leader.start()

    def _stop_leader(self) -> None:
        leader = self.leader()
        assert leader.stop() == 0
        leader.start()

    def _restart_standby(self) -> None:
        leader = self.leader()
        standby = next(scheduler for scheduler in self.schedulers if scheduler is not leader)
        standby.kill()
        standby.start()

    def _suspend_leader(self) -> None:
        """Until another leads, or with SQLite, where the lock is kept, for a few answers of the users."""
        leader = self.leader()
        leader.suspend()
        try:
            if self._zookeeper is not None:
                wait_for(lambda: self._leaders(but=leader), 30, "the other to take over")
            self._let_users(3)
        finally:
            leader.resume()
        wait_for(lambda: len(self._leaders()) == 1, 30, "the one that slept to see that another leads")

    def _suspend_zookeeper(self) -> None:
        assert self._zookeeper is not None
        self._zookeeper.suspend()
        try:
            wait_for(lambda: not any(scheduler.ready() for scheduler in self.schedulers), 30, "it to be noticed")
        finally:
            self._zookeeper.resume()

    def _kill_zookeeper(self) -> None:
        assert self._zookeeper is not None
        self._zookeeper.kill()
        self._zookeeper.start()

    def _break_stream(self) -> None:
        self.cluster.control("disconnect_frameworks")

    def _rescind(self) -> None:
        self.cluster.control("rescind_offers")

    def _lose_agent(self) -> None:
        agent = self._random.choice(AGENTS)
        if agent not in self._away:
            self.cluster.control(self._random.choice(["kill_agent", "partition_agent"]), agent=agent)
            self._away.add(agent)

    def _return_agent(self) -> None:
        if self._away:
            agent = self._random.choice(sorted(self._away))
            self.cluster.control("restart_agent", agent=agent)
            self._away.discard(agent)

    def _repeat_updates(self) -> None:
        self.cluster.control("duplicate_updates", count=self._random.randint(1, 10))

    def _drop_updates(self) -> None:
        self.cluster.control("drop_updates", count=self._random.randint(1, 5))

    def _delay_updates(self) -> None:
        self.cluster.control("delay_updates", count=self._random.randint(1, 5), seconds=0.5)

    def _fail_tasks(self) -> None:
        self.cluster.control("fail_tasks", fraction=0.3, seed=self._random.randint(0, 99))

    # --- afterwards -------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Users go home, faults stop."""
        for user in self.users:
            user.stop()
        self.cluster.control("drop_updates", count=0)
        self.cluster.control("duplicate_updates", count=0)
        for agent in sorted(self._away):
            self.cluster.control("restart_agent", agent=agent)
        self._away.clear()

    def converge(self) -> SchedulerProcess:
        """Waits until nothing is under way and everything is as it should be; returns the leader."""
        leader = self.leader().wait_ready(60)
        seen: list[str] = []

        def settled() -> bool:
            seen[:] = unsettled(leader, self.cluster)
            return not seen

        wait_for(settled, CONVERGENCE, lambda: f"convergence (seed {self.seed}): {seen}\n{leader.log()[-4000:]}")
        return leader

    def violations(self, leader: SchedulerProcess) -> list[str]:
        """What is wrong after all has settled."""
        found = [complaint for user in self.users for complaint in user.complaints]
        for user in self.users:
            found += broken_promises(user, leader)
        found += shared_ports(leader)
        for scheduler in self.schedulers:
            for log in sorted(scheduler.log_file.parent.glob("*.log")):
                text = log.read_text(errors="replace")
                found += [f"{log.parent.name}/{log.name}: {line}" for line in BAD_LINES if line in text]
        return found

    def stop(self) -> None:
        for scheduler in self.schedulers:
            scheduler.stop()
        self.cluster.stop()


def role_of(scheduler: SchedulerProcess) -> str:
    """Empty if it does not answer soon."""
    try:
        return str(requests.get(f"{scheduler.url}/readyz", timeout=1).json()["role"])
    except requests.RequestException:
        return ""


def unsettled(leader: SchedulerProcess, cluster: LocalMesosProcess) -> list[str]:
    """What is still under way, or not as it should be; empty once all is well."""
    found = [f"under way: {t['transactionID']} {t['type']} {t['message']}" for t in leader.call(
        "GET", "/transactions", status="INIT")]  # fmt: skip
    tasks: set[str] = set()
    everything = leader.call("GET", "/taskgroups")
    for app in leader.call("GET", "/applications"):
        groups = [group for group in everything if group["AppID"] == app["Name"]]
        if not as_wanted(leader, app, groups):
            statuses = dict(Counter(group["Status"] for group in groups))
            found.append(f"{app['Name']}: {app['DefineInstances']} wanted, is {statuses} ({app['Message']})")
        if complete(app, groups) and app["Status"] != ("Running" if app["DefineInstances"] else "Stopped"):
            found.append(f"{app['Name']}: {app['Status']} ({app['Message']})")
        tasks |= {task["ID"] for group in groups for task in group["Taskgroup"]}
    for what, running in (("tasks", set(cluster.running())), ("processes", set(cluster.processes()))):
        found += [f"{what} nobody knows: {id_}" for id_ in sorted(running - tasks)]
        found += [f"{what} missing: {id_}" for id_ in sorted(tasks - running)]
    return found


def as_wanted(leader: SchedulerProcess, application: Record, groups: list[Record]) -> bool:
    """Each index has its running taskgroup; or as many as the last operation had reached when a user cancelled it."""
    return complete(application, groups) or (short(application, groups) and cut_short(leader, application))


def complete(application: Record, groups: list[Record]) -> bool:
    """Every index is held by one Running taskgroup."""
    indexes = sorted(group["InstanceID"] for group in groups)
    return indexes == list(range(application["DefineInstances"])) and _all_run(groups)


def short(application: Record, groups: list[Record]) -> bool:
    """Some indexes are held by one Running taskgroup each, the others by none."""
    indexes = [group["InstanceID"] for group in groups]
    return (
        len(set(indexes)) == len(indexes)
        and set(indexes) < set(range(application["DefineInstances"]))
        and _all_run(groups)
    )


def cut_short(leader: SchedulerProcess, application: Record) -> bool:
    """A user has cancelled its last operation: the application is left as it stood then."""
    ended = [
        t
        for t in leader.call("GET", "/transactions/default", objName=application["Name"], limit=1000)
        if not t["inner"]
    ]
    return bool(ended) and max(ended, key=lambda t: t["finishTime"])["status"] == "CANCEL"


def _all_run(groups: list[Record]) -> bool:
    return all(group["Status"] == "Running" for group in groups)


def broken_promises(user: User, leader: SchedulerProcess) -> list[str]:
    """Transactions that were promised and do not exist or have not ended; applications that are not as was agreed."""
    listed = {
        name: leader.call("GET", "/transactions/default", objName=name, limit=1000)
        for name in {accepted.application for accepted in user.accepted}
    }
    found = []
    for accepted in user.accepted:
        transactions = listed[accepted.application]
        record = next((t for t in transactions if t["transactionID"] == accepted.transaction), None)
        if record is None:
            if not made_room(accepted.transaction, transactions):
                found.append(f"{accepted}: does not exist, beside {len(transactions)} of the application")
        elif record["status"] not in ("FINISH", "CANCEL", "FAIL", "SUPERSEDED"):
            found.append(f"{accepted}: {record['status']} {record['message']}")
    for name, numbers in user.possible.items():
        record = leader.application(name)
        is_ = 0 if record is None else record["DefineInstances"]
        if is_ not in numbers:
            found.append(f"{name}: {is_} wanted, but {sorted(numbers)} was agreed")
    return found


def made_room(identity: str, others: list[Record]) -> bool:
    """An ended transaction of a user may be deleted once KEPT others of the application have ended after it."""
    created = int(identity.rpartition("-")[2]) / 1e9
    later = [t for t in others if not t["inner"] and t["finishTime"] and seconds_of(t["finishTime"]) >= created - 1e-3]
    return len(later) >= KEPT


def seconds_of(text: str) -> float:
    """Unix time of an RFC 3339 time in UTC."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def shared_ports(leader: SchedulerProcess) -> list[str]:
    users: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for group in leader.call("GET", "/taskgroups"):
        for task in group["Taskgroup"]:
            for port in task["PortMappings"]:
                users[group["HostName"], port["HostPort"]].append(group["ID"])
    return [f"port {port} is used by {ids}" for port, ids in users.items() if len(ids) > 1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["zookeeper", "sqlite"], default="zookeeper")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix=f"chaos-{options.seed}-"))
    print(f"logs and data in {folder}")
    server = ZooKeeperServer(folder) if options.store == "zookeeper" else None
    store = f"zk://{server.hosts}/chaos" if server is not None else f"sqlite:///{folder}/state.db"
    try:
        if server is not None:
            server.start()
        chaos = Chaos(folder, options.seed, store, server)
        try:
            found = chaos.whole(options.rounds)
        finally:
            chaos.stop()
    finally:
        if server is not None:
            server.stop()
    print(*found, sep="\n")
    print(f"{len(found)} violations")
    print(*(f"{user.thread.name}: {dict(user.answers)}" for user in chaos.users), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
