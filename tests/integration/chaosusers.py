"""Users who do anything at any time, on a scheduler that is being hurt, and remember what they were promised."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import requests
from urllib3.exceptions import MaxRetryError, NewConnectionError

from tests.integration.schedulerprocess import PREFIX, document

MOST_INSTANCES = 6
PATIENCE = 20.0
"""Seconds a user waits for an answer: more than any fault lasts, so a request is never overtaken by the next one."""
APPS = "/namespaces/default/applications"
UNCERTAIN = ("stepped_down", "outcome_unknown")
"""Reasons of 504, which leave open whether the change was made; a 503 promises that it was not."""
RIGHT = ("conflict", "exists", "not_found", "unavailable", "no_leader", "not_leading")
"""Reasons a right operation may be refused for while others are under way and schedulers come and go."""
PORT = {"ports": [{"name": "main", "protocol": "tcp", "containerPort": 0, "hostPort": 0}]}


class Accepted(NamedTuple):
    """An operation that was answered 2xx with a transaction."""

    operation: str
    application: str
    transaction: str


def application(name: str, instances: int | None, seconds: int, executor: str = "") -> dict[str, Any]:
    """`executor`: what runs its taskgroups; empty = what the scheduler's settings say."""
    made = document(
        name, instances or 1, ["/bin/sleep", str(seconds)], container=PORT, restartPolicy={"policy": "Always"}
    )
    made["restartPolicy"] |= {"interval": 0, "backoff": 0}
    made["unreachablePolicy"] = {"replaceAfterSeconds": 1}
    if executor:
        made["executor"] = executor
    if instances is None:
        del made["spec"]["instance"]
    return made


class User:
    """Does one operation after the other on applications of its own and remembers what was promised.

    `possible` holds, by application, the numbers of taskgroups it may be meant to have after all answers so far; 0
    stands for an application that does not exist. An application that is not in it may be anything (after a cancel).
    """

    def __init__(
        self,
        seed: int,
        number: int,
        servers: Callable[[], list[str]],
        executors: Sequence[str] = ("",),
        most: int = MOST_INSTANCES,
        patience: float = PATIENCE,
        least: int = 1,
        shape: Callable[[dict[str, Any]], None] = lambda made: None,
    ) -> None:
        """`executors`: those that its applications are to run on, chosen at random. `least`, `most`: taskgroups of one
        application. `patience`: seconds until a request without an answer is given up; its outcome is then open.
        `shape` changes each document before it is sent."""
        self.thread = threading.Thread(target=self._run, name=f"user-{number}", daemon=True)
        self._random = Random(f"{seed} user {number}")
        self._servers = servers
        self._session = requests.Session()
        self._executors, self._least, self._most, self._patience = executors, least, most, patience
        self._shape = shape
        self._over = threading.Event()
        self._at_work = threading.Event()
        self._at_work.set()
        self._resting = threading.Event()
        self.names = [f"user{number}-{letter}" for letter in "abc"]
        self.possible: dict[str, set[int]] = {name: {0} for name in self.names}
        self.accepted: list[Accepted] = []
        self.answers: Counter[str] = Counter()
        self.complaints: list[str] = []

    def stop(self) -> None:
        self._over.set()
        self._at_work.set()
        self.thread.join(3 * self._patience)
        assert not self.thread.is_alive()

    def rest(self) -> None:
        """Asks for nothing more until `work`; returns when the last request has been answered or given up."""
        self._at_work.clear()
        assert self._resting.wait(3 * self._patience), f"{self.thread.name} does not come to rest"

    def work(self) -> None:
        self._at_work.set()

    def _run(self) -> None:
        operations = (
            self._create, self._scale, self._update, self._reschedule, self._delete, self._cancel, self._watch
        )  # fmt: skip
        try:
            while not self._over.is_set():
                if not self._at_work.is_set():
                    self._resting.set()
                    self._at_work.wait()
                    self._resting.clear()
                    continue
                operation = self._random.choices(operations, weights=(20, 20, 12, 12, 6, 6, 40))[0]
                operation(self._random.choice(self.names))
        except Exception as error:
            self.complaints.append(f"{self.thread.name}: {error!r}")
            raise

    # --- operations -------------------------------------------------------------------------------------------

    def _create(self, name: str) -> None:
        number = self._random.randint(self._least, self._most)
        body = self._document(name, number, 1000)
        self._change("create", name, {number}, "POST", APPS, body)

    def _scale(self, name: str) -> None:
        number = self._random.randint(self._least, self._most)
        self._change("scale", name, {number}, "PUT", f"{APPS}/{name}/scale/{number}")

    def _update(self, name: str) -> None:
        body = self._document(name, None, self._random.randint(1000, 9999))
        self._change("update", name, None, "PUT", f"{APPS}/{name}", body)

    def _document(self, name: str, number: int | None, seconds: int) -> dict[str, Any]:
        made = application(name, number, seconds, self._random.choice(self._executors))
        self._shape(made)
        return made

    def _delete(self, name: str) -> None:
        enforce = "?enforce=1" if self._random.random() < 0.3 else ""
        self._change("delete", name, {0}, "DELETE", f"{APPS}/{name}{enforce}")

    def _reschedule(self, name: str) -> None:
        answer = self._request("GET", f"{APPS}/{name}/taskgroups")
        if answer is not None and answer.status_code == 200 and (groups := answer.json()["data"]):
            chosen = self._random.choice(groups)["ID"]
            self._change("reschedule", name, None, "PUT", f"{APPS}/{name}/taskgroups/{chosen}/rescheduler")

    def _cancel(self, name: str) -> None:
        mine = [accepted for accepted in self.accepted if accepted.application == name]
        if not mine:
            return
        answer = self._request("DELETE", f"/transactions/default/{mine[-1].transaction}")
        if answer is None or answer.status_code < 300 or self._uncertain(answer):
            self.possible.pop(name, None)
        else:
            self._refused("cancel", name, answer)

    def _watch(self, name: str) -> None:
        """Waits a little for the end of what was asked for last."""
        if self.accepted:
            transaction = self.accepted[-1].transaction
            self._request("GET", f"/transactions/default/{transaction}?watch=true&timeoutSeconds=3")

    def _change(self, what: str, name: str, numbers: set[int] | None, method: str, path: str, body: Any = None) -> None:
        """`numbers`: of taskgroups that are wanted from now on; None if they stay."""
        answer = self._request(method, path, body)
        if answer is not None and answer.status_code < 300:
            self.answers[what] += 1
            transaction = answer.json()["data"].get("transactionID")
            if transaction:
                self.accepted.append(Accepted(what, name, transaction))
            if numbers is not None and (name in self.possible or what in ("create", "delete")):
                self.possible[name] = numbers
        elif answer is None or self._uncertain(answer):
            self.answers["uncertain"] += 1
            if numbers is not None and name in self.possible:
                self.possible[name] = self.possible[name] | numbers
        else:
            self._refused(what, name, answer)

    def _refused(self, what: str, name: str, answer: requests.Response) -> None:
        """Nothing was changed. Only some reasons are right."""
        reason = answer.json()["data"]["reason"]
        self.answers[reason] += 1
        if reason not in RIGHT:
            self.complaints.append(f"{what} {name}: {answer.status_code} {answer.text}")

    @staticmethod
    def _uncertain(answer: requests.Response) -> bool:
        return answer.status_code == 504 and answer.json()["data"]["reason"] in UNCERTAIN

    def _request(self, method: str, path: str, body: Any = None) -> requests.Response | None:
        """The answer of whoever leads; None if it is not known whether the request was carried out."""
        servers = self._servers()
        self._random.shuffle(servers)
        answer = None
        while servers:
            url = servers.pop() + PREFIX + path
            try:
                answer = self._session.request(method, url, json=body, timeout=self._patience, allow_redirects=False)
                if answer.status_code == 307:
                    location = answer.headers["Location"]
                    answer = self._session.request(
                        method, location, json=body, timeout=self._patience, allow_redirects=False
                    )
                return answer
            except requests.RequestException as error:
                if not _not_even_connected(error):
                    return None
        return answer


def _not_even_connected(error: requests.RequestException) -> bool:
    cause = error.args[0] if error.args else None
    return isinstance(cause, MaxRetryError) and isinstance(cause.reason, NewConnectionError)
