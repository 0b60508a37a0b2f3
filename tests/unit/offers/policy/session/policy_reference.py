"""A slow and simple session, written from the rules alone: every choice looks at everything again, with fractions.

`test_reference` compares its decisions with those of the engine. It knows the full set of built-in plug-ins in their
usual tiers, the actions allocate, backfill, preempt and reclaim, and no rules about other work. With `future_rule`
False it breaks the rule that idle room which a waiting task counts on is not taken: a mistake that tests must find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from offers.policy.session.model import Agent, Job, Queue, Status, Task
from offers.rules.taints import untolerated
from offers.rules.terms import NAME, hold

HOLDING = {Status.BINDING, Status.BOUND, Status.RUNNING}
TAKING = HOLDING | {Status.RELEASING, Status.UNKNOWN}
Key = tuple[str, str]


class Reference:
    """One session. Attributes after `run`: binds, pipelined, evicted (in order), conditions, deserved."""

    def __init__(
        self,
        agents: Iterable[Agent],
        queues: Iterable[Queue],
        jobs: Iterable[Job],
        now: float = 0.0,
        *,
        strict: bool = False,
        future_rule: bool = True,
    ) -> None:
        self.agents = {agent.name: agent for agent in sorted(agents, key=lambda a: a.name)}
        self.queues = {queue.name: queue for queue in queues}
        self.now, self.strict, self.future_rule = now, strict, future_rule
        self.conditions: dict[str, tuple[str, str]] = {}
        self.all_jobs = list(jobs)
        self.jobs = {job.name: job for job in self.all_jobs if self._enters(job)}
        self.status: dict[Key, Status] = {}
        self.place: dict[Key, str] = {}
        for job in self.all_jobs:
            for task in job.tasks:
                self.status[job.name, task.name] = task.status
                if task.agent in self.agents and task.status in TAKING:
                    self.place[job.name, task.name] = task.agent
        self.tasks: dict[Key, Task] = {(job.name, task.name): task for job in self.all_jobs for task in job.tasks}
        self.position = {(j.name, t.name): i for j in self.all_jobs for i, t in enumerate(j.tasks)}
        self.dims = sorted(
            {name for agent in self.agents.values() for name, _ in agent.total}
            | {name for task in self.tasks.values() for name, _ in task.template.request}
            | {name for queue in self.queues.values() for name, _ in (*queue.guarantee, *queue.capability)}
        )
        self.total = {d: sum(dict(a.total).get(d, 0) for a in self.agents.values()) for d in self.dims}
        self.promised: dict[Key, str] = {}
        for job in sorted(self.jobs.values(), key=lambda job: (job.created, job.name)):
            for task in job.tasks:
                promise = task.nomination
                valid = promise and promise.until > now and promise.agent in self.agents
                if promise and valid and task.status is Status.PENDING and self.fits(task, self.future(promise.agent)):
                    self.promised[job.name, task.name] = promise.agent
        full, usable = self._deserved(lambda *_: True), self._deserved(self._could_run)
        self.deserved = {name: {d: max(row[d], usable[name][d]) for d in row} for name, row in full.items()}
        self.binds: list[tuple[str, str, str]] = []
        self.kept: dict[str, list[tuple[str, str, str]]] = {}
        """Launches of jobs that are not ready yet."""
        self.evicted: list[tuple[str, str]] = []
        self.held: set[Key] = set()

    # --- figures ----------------------------------------------------------------------------------------------

    def _enters(self, job: Job) -> bool:
        if job.queue not in self.queues:
            self.conditions[job.name] = ("Unschedulable", "QueueNotFound")
            return False
        active = [t for t in job.tasks if t.status is Status.PENDING or t.status in HOLDING]
        valid = len(active) + sum(t.status is Status.SUCCEEDED for t in job.tasks)
        if active and valid < job.min_available:
            self.conditions[job.name] = ("Unschedulable", "NotEnoughTasks")
            return False
        return True

    def request(self, task: Task) -> dict[str, int]:
        return {name: amount for name, amount in task.template.request if amount > 0}

    def _sum(self, keys: Iterable[Key]) -> dict[str, int]:
        found = dict.fromkeys(self.dims, 0)
        for key in keys:
            for name, amount in self.request(self.tasks[key]).items():
                found[name] += amount
        return found

    def on(self, agent: str, *statuses: Status) -> list[Key]:
        return [key for key, place in self.place.items() if place == agent and self.status[key] in statuses]

    def idle(self, agent: str) -> dict[str, int]:
        used = self._sum(self.on(agent, Status.ALLOCATED, *TAKING))
        mine = self.agents[agent]
        return {d: dict(mine.total).get(d, 0) - dict(mine.foreign).get(d, 0) - used[d] for d in self.dims}

    def future(self, agent: str) -> dict[str, int]:
        idle = self.idle(agent)
        releasing = self._sum(self.on(agent, Status.RELEASING))
        waiting = self._sum(self.on(agent, Status.PIPELINED))
        promised = self._sum(key for key, place in self.promised.items() if place == agent)
        return {d: idle[d] + releasing[d] - waiting[d] - promised[d] for d in self.dims}

    def fits(self, task: Task, room: dict[str, int]) -> bool:
        return all(amount <= room.get(name, 0) for name, amount in self.request(task).items())

    def fits_now(self, task: Task, agent: str) -> bool:
        return self.fits(task, self.idle(agent)) and (not self.future_rule or self.fits(task, self.future(agent)))

    def keys(self, job: Job, *statuses: Status) -> list[Key]:
        return [(job.name, t.name) for t in job.tasks if self.status[job.name, t.name] in statuses]

    def ready(self, job: Job) -> int:
        return len(self.keys(job, Status.ALLOCATED, Status.SUCCEEDED, *HOLDING))

    def waiting(self, job: Job) -> int:
        return len(self.keys(job, Status.PIPELINED))

    def is_ready(self, job: Job) -> bool:
        return self.ready(job) >= job.min_available

    def is_pipelined(self, job: Job) -> bool:
        return self.ready(job) + self.waiting(job) >= job.min_available

    def of_job(self, job: Job) -> dict[str, int]:
        return self._sum(self.keys(job, Status.ALLOCATED, Status.PIPELINED, *HOLDING))

    def of_queue(self, queue: str) -> dict[str, int]:
        sums = [self.of_job(job) for job in self.all_jobs if job.queue == queue]
        return {d: sum(one[d] for one in sums) for d in self.dims}

    def with_promises(self, queue: str, key: Key | None = None) -> dict[str, int]:
        """The amounts of a queue, with those that its tasks but one were promised."""
        promised = self._sum(one for one in self.promised if one != key and self.jobs[one[0]].queue == queue)
        return {d: amount + promised[d] for d, amount in self.of_queue(queue).items()}

    @staticmethod
    def share(part: Fraction | int, whole: Fraction | int) -> Fraction:
        return Fraction(part) / whole if whole else Fraction(1 if part else 0)

    def dominant(self, amounts: dict[str, int]) -> Fraction:
        return max(self.share(amounts[d], self.total[d]) for d in self.dims)

    def _deserved(self, counts: Callable[[Job, Task], bool]) -> dict[str, dict[str, Fraction]]:
        """By rounds: everybody's level rises until the next one has enough."""
        inside = {job.queue for job in self.jobs.values()}
        names = [name for name in self.queues if name in inside or any(self.of_queue(name).values())]
        found: dict[str, dict[str, Fraction]] = {name: {} for name in names}
        for d in self.dims:
            lows = {name: Fraction(dict(self.queues[name].guarantee).get(d, 0)) for name in names}
            total = Fraction(self.total[d])
            highs = {}
            for name in names:
                keys = [
                    key
                    for job in self.all_jobs
                    if job.queue == name
                    for key in self.keys(job, Status.PENDING, *HOLDING)
                    if self.status[key] is not Status.PENDING
                    or (job.name in self.jobs and counts(job, self.tasks[key]))
                ]
                highs[name] = max(lows[name], min(Fraction(min(self._sum(keys)[d], self.limit(name)[d])), total))
            if sum(highs.values()) <= total:
                rows = highs
            elif sum(lows.values()) >= total:
                rows = {name: low * total / sum(lows.values()) for name, low in lows.items()}
            else:
                weights = {name: self.queues[name].weight for name in names}
                turns = sorted({bound / weights[n] for n in names for bound in (lows[n], highs[n])})

                def at(level: Fraction, lows: Any = lows, highs: Any = highs, weights: Any = weights) -> Any:
                    return {n: min(max(weights[n] * level, lows[n]), highs[n]) for n in names}

                below = max((t for t in turns if sum(at(t).values()) < total), default=Fraction(0))
                above = min(t for t in turns if sum(at(t).values()) >= total)
                one, two = sum(at(below).values()), sum(at(above).values())
                rows = at(below + (above - below) * (total - one) / (two - one))
            for name in names:
                found[name][d] = rows[name]
        return found

    def _could_run(self, job: Job, task: Task) -> bool:
        """Empty agents, and the limit of the queue, could hold the minimum of tasks like this one, or it was promised
        room."""
        template = task.template
        if task.nomination is not None or not (request := dict(template.request)):
            return True
        room = 0
        for agent in self.agents.values():
            suits = agent.ready and agent.schedulable
            suits = suits and hold(template.selector, {NAME: agent.name, **agent.attributes})
            if suits and untolerated(agent.taints, template.tolerations) is None:
                room += min(dict(agent.total).get(d, 0) // amount for d, amount in request.items() if amount)
        limit = self.limit(job.queue)
        return room >= job.min_available and all(
            amount * job.min_available <= limit[d] for d, amount in request.items() if amount
        )

    def least(self, queue: str, dimension: str) -> Fraction:
        """The guarantee, in proportion if there is less than all guarantees together."""
        promised = sum(dict(q.guarantee).get(dimension, 0) for q in self.queues.values())
        own = dict(self.queues[queue].guarantee).get(dimension, 0)
        return Fraction(own) * min(Fraction(1), Fraction(self.total[dimension], promised or 1))

    def limit(self, queue: str) -> dict[str, int]:
        """The capability, and the guarantees of others."""
        capability = dict(self.queues[queue].capability)
        limit = {d: capability.get(d, 2**62) for d in self.dims}
        for d in self.dims:
            others = sum(dict(q.guarantee).get(d, 0) for q in self.queues.values() if q.name != queue)
            if others:
                limit[d] = min(limit[d], self.total[d] - others)
        return limit

    def most(self, queue: str) -> dict[str, Any]:
        """The limit, with `strict` the deserved share as well."""
        limit, deserved = self.limit(queue), self.deserved[queue]
        return {d: min(limit[d], deserved[d]) if self.strict else limit[d] for d in self.dims}

    def within(self, queue: str, task: Task, strict: bool, *, promises: bool = False) -> bool:
        allocated = self.with_promises(queue) if promises else self.of_queue(queue)
        limit, deserved = self.limit(queue), self.deserved[queue]
        wanted = self.request(task)
        hard = all(allocated[d] + q <= limit[d] for d, q in wanted.items())
        return hard and (not strict or all(allocated[d] + q <= deserved[d] for d, q in wanted.items()))

    def may_take_back(self, queue: str, key: Key) -> bool:
        after = {d: self.with_promises(queue, key)[d] + q for d, q in self.request(self.tasks[key]).items()}
        limit, deserved = self.limit(queue), self.deserved[queue]
        return all(amount <= limit[d] and amount <= deserved[d] for d, amount in after.items())

    def overused(self, queue: str, *, promises: bool = False) -> bool:
        allocated = self.with_promises(queue) if promises else self.of_queue(queue)
        return all(allocated[d] >= self.deserved[queue][d] for d in self.dims)

    # --- orders -----------------------------------------------------------------------------------------------

    def queue_key(self, name: str) -> Any:
        allocated, queue = self.of_queue(name), self.queues[name]
        share = max(self.share(allocated[d], self.deserved[name][d]) for d in self.dims)
        return (share, queue.created, name)

    def job_key(self, job: Job) -> Any:
        return (-job.priority, self.is_ready(job), self.dominant(self.of_job(job)), job.created, job.name)

    def task_key(self, key: Key) -> Any:
        task = self.tasks[key]
        return (-task.priority, task.created, self.position[key])

    def pending(self, job: Job, best_effort: bool | None = None) -> list[Key]:
        keys = self.keys(job, Status.PENDING)
        kept = [k for k in keys if best_effort is None or self.is_best_effort(self.tasks[k]) is best_effort]
        return sorted(kept, key=self.task_key)

    @staticmethod
    def is_best_effort(task: Task) -> bool:
        floor = {"cpus": 10, "mem": 32_000}
        return task.template.best_effort or all(q <= floor.get(d, 0) for d, q in task.template.request)

    # --- agents -----------------------------------------------------------------------------------------------

    def passes(self, task: Task, name: str) -> bool:
        agent, template = self.agents[name], task.template
        here = self.on(name, Status.ALLOCATED, Status.PIPELINED, *TAKING)
        ports = {port for key in here for port in self.tasks[key].template.ports} | set(agent.ports)
        return (
            agent.ready
            and agent.schedulable
            and (agent.max_tasks is None or len(here) < agent.max_tasks)
            and hold(template.selector, {NAME: name, **agent.attributes})
            and untolerated(agent.taints, template.tolerations) is None
            and not ports & set(template.ports)
        )

    def score(self, task: Task, name: str, candidates: list[str]) -> int:
        agent = self.agents[name]
        used = {"cpus": dict(agent.foreign).get("cpus", 0), "mem": dict(agent.foreign).get("mem", 0)}
        keys = self.on(name, Status.ALLOCATED, Status.PIPELINED, *TAKING)
        for template in [self.tasks[key].template for key in keys] + [task.template]:
            request = dict(template.request)
            used["cpus"] += request.get("cpus") or 100
            used["mem"] += request.get("mem") or 200_000
        total = {d: dict(agent.total).get(d, 0) for d in used}
        least = sum((total[d] - used[d]) * 10 // total[d] if used[d] <= total[d] and total[d] else 0 for d in used) // 2
        balanced = 0
        if all(used[d] < total[d] for d in used):
            fractions = [Fraction(used[d], total[d]) for d in used]
            balanced = int((1 - abs(fractions[0] - fractions[1])) * 10)
        best = max((self._preference(task, one) for one in candidates), default=0)
        return least + balanced + (10 * self._preference(task, name) // best if best else 0)

    def _preference(self, task: Task, name: str) -> int:
        labels = {NAME: name, **self.agents[name].attributes}
        return sum(one.weight for one in task.template.preferred if hold(one.terms, labels))

    def ranking(self, task: Task) -> list[str]:
        found = [name for name in self.agents if self.passes(task, name)]
        scores = {name: self.score(task, name, found) for name in found}
        return sorted(found, key=lambda name: (-scores[name], name))

    # --- running ----------------------------------------------------------------------------------------------

    def save(self) -> Any:
        return (dict(self.status), dict(self.place), dict(self.promised))

    def restore(self, saved: Any) -> None:
        self.status, self.place, self.promised = (dict(part) for part in saved)

    def put(self, key: Key, agent: str, status: Status) -> None:
        self.promised.pop(key, None)
        self.status[key], self.place[key] = status, agent

    def run(self, actions: Iterable[str]) -> Reference:
        for action in actions:
            getattr(self, action)()
        for job in self.jobs.values():
            if self.is_ready(job):
                self.conditions[job.name] = ("Scheduled", "")
            elif self.keys(job, Status.PENDING, Status.PIPELINED, Status.ALLOCATED, *HOLDING):
                self.conditions[job.name] = ("Unschedulable", "NotEnoughResources")
        return self

    @property
    def pipelined(self) -> dict[Key, str]:
        launched = {(job, task) for job, task, _ in self.binds}
        inside = (Status.PIPELINED, Status.ALLOCATED)
        return {k: self.place[k] for k, s in self.status.items() if s in inside and k not in launched}

    def allocate(self) -> None:
        left = {job.name: self.pending(job, False) for job in self.jobs.values()}
        queues = [name for name in self.deserved if any(left[j.name] for j in self.jobs.values() if j.queue == name)]
        waiting = {name: [j for j in self.jobs.values() if j.queue == name and left[j.name]] for name in queues}
        full = set[str]()
        while queues:
            name = min(queues, key=self.queue_key)
            if name not in full and self.overused(name, promises=True):
                full.add(name)
                for job in waiting[name]:
                    left[job.name] = [key for key in left[job.name] if key in self.promised]
                waiting[name] = [job for job in waiting[name] if left[job.name]]
            if not waiting[name]:
                queues.remove(name)
                continue
            job = min(waiting[name], key=self.job_key)
            waiting[name].remove(job)
            before, launched = self.save(), []
            tasks = left[job.name]
            while tasks:
                key = tasks.pop(0)
                agent = self._find_place(job, key)
                if agent is not None and self.status[key] is Status.ALLOCATED:
                    launched.append((*key, agent))
                if self.is_ready(job):
                    break
                if agent is None and self.ready(job) + self.waiting(job) + len(tasks) < job.min_available:
                    break
            if self._end(job, launched, before) and tasks:
                waiting[name].append(job)

    def _end(self, job: Job, launched: list[tuple[str, str, str]], before: Any) -> bool:
        """Launches the tasks of a job that is ready, with those that were kept before. True if it is."""
        if self.is_ready(job):
            self.binds += self.kept.pop(job.name, []) + launched
            return True
        if self.is_pipelined(job):
            self.kept[job.name] = self.kept.get(job.name, []) + launched
        else:
            self.restore(before)
        return False

    def _find_place(self, job: Job, key: Key) -> str | None:
        task = self.tasks[key]
        promised = self.promised.pop(key, None)
        if not self.within(job.queue, task, self.strict, promises=True):
            return None
        order = self.ranking(task)
        first = [promised] if promised in order else []
        for agents in (first, order):
            for name in agents:
                if self.fits_now(task, str(name)):
                    self.put(key, str(name), Status.ALLOCATED)
                    return name
            for name in agents:
                if self.fits(task, self.future(str(name))):
                    self.put(key, str(name), Status.PIPELINED)
                    return name
        return None

    def backfill(self) -> None:
        jobs = [job for job in self.jobs.values() if self.pending(job, True)]
        while jobs:
            job = min(jobs, key=self.job_key)
            jobs.remove(job)
            before, launched = self.save(), []
            for key in self.pending(job, True):
                task = self.tasks[key]
                found = [name for name in self.ranking(task) if self.fits_now(task, name)]
                if found and self.within(job.queue, task, self.strict):
                    self.put(key, found[0], Status.ALLOCATED)
                    launched.append((*key, found[0]))
            self._end(job, launched, before)

    def preempt(self) -> None:
        for_later, begin = list(self.deserved), len(self.evicted)
        while for_later:
            name = min(for_later, key=self.queue_key)
            for_later.remove(name)
            starving = [
                j for j in self.jobs.values() if j.queue == name and self.pending(j) and not self.is_pipelined(j)
            ]
            while starving:
                job = min(starving, key=self.job_key)
                starving.remove(job)
                before, killed = self.save(), []
                for key in self.pending(job):
                    if self.is_pipelined(job):
                        break
                    others = [j for j in self.jobs.values() if j.queue == name and j is not job]
                    killed += self._make_room(key, others, self._preemptable) or []
                if self.is_pipelined(job) and killed:
                    self.evicted += killed
                else:
                    self.restore(before)

        self._give_back(begin)

    def reclaim(self) -> None:
        for_later, begin = list(self.deserved), len(self.evicted)
        promised, idle = dict(self.promised), list[Key]()
        """`idle`: tasks for which nothing is evicted; they take room and limits until the action ends."""
        while for_later:
            name = min(for_later, key=self.queue_key)
            for_later.remove(name)
            waiting = [job for job in self.jobs.values() if job.queue == name and self.pending(job)]
            while waiting and not self.overused(name, promises=True):
                job = min(waiting, key=self.job_key)
                waiting.remove(job)
                before, killed, placed = self.save(), [], list[Key]()
                for key in self.pending(job):
                    if not self.may_take_back(name, key):
                        continue
                    others = [j for j in self.jobs.values() if j.queue != name and self.queues[j.queue].reclaimable]
                    found = self._make_room(key, others, self._reclaimable)
                    if found is None:
                        continue
                    killed += found
                    placed.append(key)
                    if self.is_pipelined(job):
                        self.evicted += killed
                        idle += [] if killed else placed
                        before, killed, placed = self.save(), [], []
                if self.is_pipelined(job):
                    self.evicted += killed
                    idle += [] if killed else placed
                else:
                    self.restore(before)

        self._give_back(begin)
        for key in idle:
            self.status[key] = Status.PENDING
            place = self.place.pop(key)
            if key in promised or len(self.evicted) > begin:
                self.promised[key] = promised.get(key, place)

    def _make_room(self, key: Key, jobs: list[Job], choose: Any) -> list[Key] | None:
        """Returns the evicted tasks; None if there is no agent."""
        task, promised = self.tasks[key], self.promised.get(key)
        before = self.save()
        self.promised.pop(key, None)
        ranked = self.ranking(task)
        options = []
        if self._for_limit(key, [], jobs, choose) is None:
            ranked = []
        for number, name in enumerate(ranked):
            victims = self._victims_on(name, key, jobs, choose)
            if victims is not None:
                cost = self._cost(key, victims)
                needs_room = not self.fits(task, self.future(name))
                options.append((needs_room, *cost, name != promised, number, name, victims))
        if not options:
            self.restore(before)
            return None
        *_, name, victims = min(options)
        for victim in victims:
            self.status[victim] = Status.RELEASING
        self.put(key, name, Status.PIPELINED)
        return victims

    def _cost(self, key: Key, victims: list[Key]) -> tuple[int, int, int]:
        """The highest priority, the number, and the sum of the parts of the cluster."""
        own = self.jobs[key[0]]
        ranks = [
            (self.jobs[v[0]].priority if v[0] != own.name else self.tasks[v].priority)
            if self.tasks[v].ready
            else -(2**61)
            for v in victims
        ]
        amounts = self._sum(victims)
        parts = sum(amount * (2**56 // self.total[d]) for d, amount in amounts.items() if self.total[d])
        return max(ranks, default=-(2**62)), len(victims), parts

    def _victims_on(self, name: str, key: Key, jobs: list[Job], choose: Any) -> list[Key] | None:
        """The victims if the task waits on one agent. They are chosen there until it has room, then on all agents until
        the limit of the queue holds the task; then those that are not needed stay."""
        task = self.tasks[key]
        theirs = {job.name for job in jobs}

        def room(gone: list[Key]) -> bool:
            free, freed = self.future(name), self._sum(one for one in gone if self.place[one] == name)
            return self.fits(task, {d: free[d] + freed[d] for d in self.dims})

        taken: list[Key] = []
        if not room([]):
            running = [other for other in self.on(name, Status.RUNNING) if other[0] in theirs]
            running.sort(key=self._importance, reverse=True)
            victims = choose(key, running)
            if not room(victims):
                victims = next(([one] for one in running if room([one]) and choose(key, [one])), [])
            if not room(victims):
                return None
            for victim in victims:
                free, freed = self.future(name), self._sum(taken)
                short = [d for d, q in self.request(task).items() if q > free[d] + freed[d]]
                if not short:
                    break
                if any(self.request(self.tasks[victim]).get(d) for d in short):
                    taken.append(victim)
        found = self._for_limit(key, taken, jobs, choose)
        if found is None:
            return None
        taken = found
        for victim in sorted(taken, key=self._importance):
            rest = [one for one in taken if one != victim]
            if room(rest) and self._allowed(key, rest):
                taken = rest
        return taken

    def _importance(self, key: Key) -> Any:
        return (not self.tasks[key].ready, self.job_key(self.jobs[key[0]]), self.task_key(key))

    def _allowed(self, key: Key, gone: list[Key]) -> bool:
        """The limits of the queue admit a task without these others."""
        queue = self.jobs[key[0]].queue
        used, most = self.with_promises(queue, key), self.most(queue)
        freed = self._sum(one for one in gone if self.jobs[one[0]].queue == queue)
        return all(used[d] - freed[d] + q <= most[d] for d, q in self.request(self.tasks[key]).items())

    def _for_limit(self, key: Key, taken: list[Key], jobs: list[Job], choose: Any) -> list[Key] | None:
        """The victims, and more of them on any agent until the queue can hold the task."""
        if self._allowed(key, taken):
            return taken
        theirs = {job.name for job in jobs}
        anywhere = [other for agent in self.agents for other in self.on(agent, Status.RUNNING)]
        others = [other for other in anywhere if other[0] in theirs and other not in taken]
        others.sort(key=self._importance, reverse=True)
        found = list(taken)
        for victim in choose(key, taken + others):
            wanted = self.request(self.tasks[key]).keys() & self.request(self.tasks[victim]).keys()
            if victim in taken or not wanted or self.jobs[victim[0]].queue != self.jobs[key[0]].queue:
                continue
            found.append(victim)
            if self._allowed(key, found):
                return found
        alone = ([*taken, one] for one in others if one in choose(key, [*taken, one]))
        return next((more for more in alone if self._allowed(key, more)), None)

    def _give_back(self, begin: int) -> None:
        """The victims since then stay that later ones have made needless."""
        for victim in sorted(self.evicted[begin:], key=self._importance):
            queue = self.jobs[victim[0]].queue
            self.status[victim] = Status.RUNNING
            used, most = self.with_promises(queue), self.most(queue)
            placed = [
                key
                for job in self.jobs.values()
                if job.queue == queue
                for key in self.keys(job, Status.PIPELINED, Status.ALLOCATED)
            ]
            future = self.future(self.place[victim])
            fits = all(future[d] >= 0 for d in self.request(self.tasks[victim]))
            if fits and all(used[d] <= most[d] for key in placed for d in self.request(self.tasks[key])):
                self.evicted.remove(victim)
            else:
                self.status[victim] = Status.RELEASING

    def _surplus(self, candidates: list[Key]) -> list[Key]:
        left = {job.name: self.ready(job) for job in self.jobs.values()}
        found = []
        for key in candidates:
            job = self.jobs[key[0]]
            if job.min_available <= 1 or left[job.name] > job.min_available:
                left[job.name] -= 1
                found.append(key)
        return found

    def _preemptable(self, claim: Key, candidates: list[Key]) -> list[Key]:
        own = self.jobs[claim[0]].priority
        return self._surplus(
            [key for key in candidates if self.jobs[key[0]].priority < own and not self.tasks[key].critical]
        )

    def _reclaimable(self, claim: Key, candidates: list[Key]) -> list[Key]:
        """What only counts comes last: a task that may not leave uses up nothing that its queue can lose."""
        tally = {name: self.of_queue(name) for name in self.deserved}
        above = []
        for key in self._surplus([key for key in candidates if not self.tasks[key].critical]):
            queue = self.jobs[key[0]].queue
            request = self.request(self.tasks[key])
            kept = all(tally[queue][d] - amount >= self.least(queue, d) for d, amount in request.items())
            if kept and any(tally[queue][d] > self.deserved[queue][d] for d in self.request(self.tasks[claim])):
                above.append(key)
                for d, amount in request.items():
                    tally[queue][d] -= amount
        return above
