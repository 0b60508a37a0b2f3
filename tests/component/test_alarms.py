"""Alarms: what becomes one, convergence, and receivers (real HTTP servers) that refuse, fail and hang."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.observability import alarms
from bcs_scheduler.observability.alarms import Alarms
from bcs_scheduler.settings.sections import AlarmSettings
from store.records import Event
from tests.waiting import wait_for

GROUP = "3.web.shop.demo.1700000000000000001"
Answer = Callable[[int], int]
"""Status of the answer to the request of this number, from 1 on; SILENT, or DRIPPING: a head that never ends."""
SILENT, DRIPPING = 0, -1


class Receiver(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.bodies: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self.release = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/alarms"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.tokens.append(self.headers.get("Authorization", ""))
        self.server.bodies.append(body)
        status = self.server.answer(len(self.server.bodies))
        if status == DRIPPING:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-More: ")
            while not self.server.release.wait(0.02):
                self.wfile.write(b"x")
            return
        if status == SILENT:
            self.server.release.wait(30)
            return
        self.send_response(status)
        if status == 307:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def receiving(answer: Answer = lambda number: 200) -> Iterator[Receiver]:
    receiver = Receiver(answer)
    thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.release.set()
        receiver.shutdown()
        receiver.server_close()


class Siren:
    """Alarms under test, with a clock set by hand."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.now = 0.0
        self.counts: Counter[str] = Counter()
        options = AlarmSettings(url=url, **{"timeout": 30.0, **settings})
        self.alarms = Alarms(options, "BCS-1", "http://10.0.0.1:8080", self._count, lambda: self.now)
        self._number = 0
        self.alarms.start()

    def _count(self, outcome: str) -> None:
        self.counts[outcome] += 1

    def happen(self, reason: str, kind: str = "taskgroup", key: str = GROUP, level: str = "warning") -> None:
        self._number += 1
        self.alarms.notice([event(reason, kind, key, level, number=self._number)])

    def wait(self, **counts: int) -> None:
        wait_for(lambda: all(self.counts[name] >= number for name, number in counts.items()), what=lambda: str(self))
        assert {name: self.counts[name] for name in counts} == counts

    def __str__(self) -> str:
        return f"counts {self.counts}"


START = 1_700_000_000.5


def event(
    reason: str, kind: str = "taskgroup", key: str = GROUP, level: str = "warning", number: int = 1, at: float = START
) -> Event:
    return Event(
        number=number,
        at=at,
        object=kind,
        key=key,
        namespace="shop",
        reason=reason,
        message=f"it is {reason}",
        level=level,
        transaction="application-7",
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarms, "FIRST_PAUSE", 0.01)


@pytest.fixture
def sirens() -> Iterator[Callable[..., Siren]]:
    made: list[Siren] = []

    def make(url: str, **settings: Any) -> Siren:
        made.append(Siren(url, **settings))
        return made[-1]

    yield make
    for siren in made:
        siren.alarms.stop()


Make = Callable[..., Siren]


def test_the_body_says_what_happened(sirens: Make) -> None:
    with receiving() as receiver:
        siren = sirens(receiver.url)
        siren.happen("TaskGroupLost")
        siren.wait(sent=1)
        assert receiver.bodies == [
            {
                "alarmID": "shop.web-3",
                "alarmName": "taskgroup lost",
                "alarmKind": "Warn",
                "clusterID": "BCS-1",
                "convergenceSeconds": 600.0,
                "module": "scheduler",
                "moduleUrl": "http://10.0.0.1:8080",
                "namespace": "shop",
                "resourceType": "taskgroup",
                "resourceName": GROUP,
                "reason": "TaskGroupLost",
                "message": "it is TaskGroupLost",
                "level": "warning",
                "transaction": "application-7",
                "event": 1,
                "atTime": "2023-11-14T22:13:20.500000Z",
                "suppressed": 0,
                "dropped": 0,
            }
        ]
        assert receiver.tokens == [""]


def test_the_same_alarm_converges_and_the_next_one_says_how_many_were_held_back(sirens: Make) -> None:
    with receiving() as receiver:
        siren = sirens(receiver.url, convergence=600.0)
        for _ in range(4):
            siren.happen("TaskGroupFailed")
        siren.happen("TaskGroupFailed", key="4.web.shop.demo.17")  # another alarm
        siren.wait(sent=2, suppressed=3)
        siren.now = 599.0
        siren.happen("TaskGroupFailed", key="3.web.shop.demo.1800000000000000000")  # the same place, started again
        siren.wait(suppressed=4)
        siren.now = 601.0
        siren.happen("TaskGroupFailed")
        siren.wait(sent=3)
        assert [(body["alarmID"], body["suppressed"]) for body in receiver.bodies] == [
            ("shop.web-3", 0),
            ("shop.web-4", 0),
            ("shop.web-3", 4),
        ]


def test_what_is_no_trouble_raises_no_alarm(sirens: Make) -> None:
    with receiving() as receiver:
        siren = sirens(receiver.url)
        siren.happen("TaskGroupPlaced", level="info")
        siren.happen("TaskGroupRunning", level="info")
        siren.happen("TaskGroupKilled", level="info")  # somebody wanted that
        siren.happen("TransactionStarted", "transaction", "application-7", "info")
        siren.happen("TaskGroupHealthy", level="info")  # nothing was wrong
        siren.happen("FrameworkSubscribed", "framework", "framework-1", "info")
        siren.happen("TaskGroupKilled")
        siren.wait(sent=1)
        assert [body["alarmName"] for body in receiver.bodies] == ["taskgroup killed"]


def test_the_end_of_trouble_is_told_once(sirens: Make) -> None:
    with receiving() as receiver:
        siren = sirens(receiver.url)
        for reason in ("TaskGroupUnhealthy", "TaskGroupHealthy", "TaskGroupHealthy"):
            siren.happen(reason)
        siren.happen("TaskGroupLost")
        siren.wait(sent=3)
        assert [body["reason"] for body in receiver.bodies] == [
            "TaskGroupUnhealthy",
            "TaskGroupHealthy",
            "TaskGroupLost",
        ]
        assert [body["alarmKind"] for body in receiver.bodies] == ["Warn", "Info", "Warn"]


def test_what_comes_and_goes_converges_and_nobody_is_left_with_the_opposite_of_what_is(sirens: Make) -> None:
    with receiving() as receiver:
        siren = sirens(receiver.url, convergence=600.0)
        for now in range(0, 100, 10):
            siren.now = now
            siren.happen("TaskGroupUnhealthy")
            siren.happen("TaskGroupHealthy")
        siren.now = 100.0
        siren.happen("TaskGroupUnhealthy")
        siren.wait(sent=2, suppressed=9)
        assert [body["reason"] for body in receiver.bodies] == ["TaskGroupUnhealthy", "TaskGroupHealthy"]
        siren.now = 600.0  # it is unhealthy still
        siren.wait(sent=3)
        siren.now = 601.0  # and healthy again a second later; that was last told at 0
        siren.happen("TaskGroupHealthy")
        siren.wait(sent=4, suppressed=9)
        assert [(body["reason"], body["suppressed"]) for body in receiver.bodies[2:]] == [
            ("TaskGroupUnhealthy", 9),
            ("TaskGroupHealthy", 0),
        ]


def test_an_end_that_is_held_back_is_told_later_unless_the_trouble_is_back(sirens: Make) -> None:
    with receiving() as receiver:
        siren = sirens(receiver.url, convergence=600.0)
        siren.happen("TaskGroupUnhealthy")
        siren.now = 500.0
        siren.happen("TaskGroupHealthy")
        siren.now = 700.0
        for reason in ("TaskGroupUnhealthy", "TaskGroupHealthy", "TaskGroupUnhealthy"):
            siren.happen(reason)
        siren.wait(sent=3, suppressed=2)
        siren.happen("TaskGroupHealthy")
        siren.now = 1100.0
        siren.wait(sent=4)
        assert [body["reason"] for body in receiver.bodies] == [
            "TaskGroupUnhealthy",
            "TaskGroupHealthy",
            "TaskGroupUnhealthy",
            "TaskGroupHealthy",
        ]


def test_who_leads_no_more_tells_nothing_late(sirens: Make) -> None:
    with receiving() as receiver:
        siren = sirens(receiver.url, convergence=600.0)
        for reason in ("TaskGroupUnhealthy", "TaskGroupHealthy", "TaskGroupUnhealthy"):
            siren.happen(reason)
        siren.alarms.not_leading()
        siren.now = 601.0
        siren.happen("TaskGroupLost")
        siren.wait(sent=3)
        assert [body["reason"] for body in receiver.bodies] == [
            "TaskGroupUnhealthy",
            "TaskGroupHealthy",
            "TaskGroupLost",
        ]


@pytest.mark.parametrize(
    ("kind", "key", "reason", "identity"),
    [
        ("taskgroup", GROUP, "TaskGroupRestarted", "shop.web-3-restart"),
        ("transaction", "application-7", "TransactionTimedOut", "shop.application-7-timeout"),
        ("deployment", "shop/web", "UpdateSuspended", "shop.web-suspended"),
        ("daemonset", "shop/probe", "DaemonsetStuck", "shop.probe-stuck"),
        ("deployment", "shop/web", "UpdateGoingBack", "shop.web-back"),
        ("agent", "10.0.0.9", "DrainFailed", "shop.10.0.0.9-drain"),
        ("agent", "10.0.0.9", "DrainBlocked", "shop.10.0.0.9-blocked"),
        ("framework", "framework-1", "FrameworkDisconnected", "framework-connection"),
        ("service", "shop/web", "ServiceUnavailable", "shop.web-service"),
    ],
)
def test_ids(sirens: Make, kind: str, key: str, reason: str, identity: str) -> None:
    with receiving() as receiver:
        siren = sirens(receiver.url)
        siren.happen(reason, kind, key)
        siren.wait(sent=1)
        assert [body["alarmID"] for body in receiver.bodies] == [identity]


@pytest.mark.parametrize("end", ["DrainFinished", "DrainCancelled"])
def test_the_end_of_a_drain_is_told_if_it_was_blocked(sirens: Make, end: str) -> None:
    with receiving() as receiver:
        siren = sirens(receiver.url)
        siren.happen(end, "agent", "10.0.0.8")
        siren.happen("DrainBlocked", "agent", "10.0.0.9")
        siren.happen(end, "agent", "10.0.0.9")
        siren.wait(sent=2)
        assert [body["reason"] for body in receiver.bodies] == ["DrainBlocked", end]


def test_a_change_of_leaders_is_an_alarm(sirens: Make) -> None:
    with receiving() as receiver:
        siren = sirens(receiver.url)
        siren.alarms.leading(4)
        siren.wait(sent=1)
        assert receiver.bodies[0]["alarmName"] == "leader changed"
        assert receiver.bodies[0]["message"] == "http://10.0.0.1:8080 leads, epoch 4"


def test_a_new_leader_knows_what_was_told_before(sirens: Make) -> None:
    with receiving() as receiver:
        siren = sirens(receiver.url, convergence=600.0)
        past = [event("TaskGroupFailed", number=n, at=START + n) for n in (1, 2)]
        siren.alarms.leading(4, past, START + 500)
        siren.happen("TaskGroupFailed")
        siren.wait(sent=1, suppressed=1)
        siren.now = 102.0  # 601 s after the first
        siren.happen("TaskGroupFailed")
        siren.wait(sent=2)
        assert [(body["alarmID"], body["suppressed"]) for body in receiver.bodies] == [
            ("BCS-1-leader", 0),
            ("shop.web-3", 2),
        ]


def test_of_the_last_seconds_before_it_a_new_leader_tells_again(sirens: Make) -> None:
    with receiving() as receiver:
        siren = sirens(receiver.url, convergence=600.0)
        past = [
            event("TaskGroupFailed", at=START),
            event("TaskGroupLost", key="4.web.shop.demo.17", number=2, at=START + 100),
        ]
        siren.alarms.leading(4, past, START + 101)
        siren.wait(sent=2, suppressed=0)
        assert [body["alarmID"] for body in receiver.bodies] == ["shop.web-4", "BCS-1-leader"]


def test_the_end_of_trouble_is_told_by_whoever_leads(sirens: Make) -> None:
    with receiving() as receiver:
        siren = sirens(receiver.url, convergence=600.0)
        siren.alarms.leading(4, [event("TaskGroupUnhealthy")], START + 3600)
        siren.happen("TaskGroupHealthy")
        siren.wait(sent=2)
        assert [body["reason"] for body in receiver.bodies] == ["leading", "TaskGroupHealthy"]


def test_a_leader_that_comes_back_goes_by_the_events_alone(sirens: Make) -> None:
    with receiving() as receiver:
        siren = sirens(receiver.url, convergence=600.0)
        siren.alarms.leading(4, [], START)
        siren.happen("TaskGroupFailed")
        siren.wait(sent=2)
        siren.now = 300.0
        siren.alarms.leading(
            6, [event("TaskGroupFailed"), event("TaskGroupFailed", number=2, at=START + 200)], START + 300
        )
        siren.happen("TaskGroupFailed")
        siren.wait(sent=2, suppressed=2)  # the other is the change of leaders
        siren.now = 601.0
        siren.happen("TaskGroupFailed")
        siren.wait(sent=3)
        assert receiver.bodies[-1]["suppressed"] == 2


def test_the_token_is_read_for_each_alarm(sirens: Make, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    with receiving() as receiver:
        siren = sirens(receiver.url, token_file=str(token))
        siren.happen("TaskGroupFailed")
        siren.wait(sent=1)
        token.write_text("second\n")
        siren.happen("TaskGroupLost", key="9.web.shop.demo.1")
        siren.wait(sent=2)
        assert receiver.tokens == ["Bearer first", "Bearer second"]


def test_a_receiver_that_fails_gets_the_alarm_again(sirens: Make) -> None:
    with receiving(lambda number: 500 if number < 3 else 204) as receiver:
        siren = sirens(receiver.url)
        siren.happen("TaskGroupFailed")
        siren.wait(sent=1)
        assert [body["alarmID"] for body in receiver.bodies] == ["shop.web-3"] * 3


@pytest.mark.parametrize("status", [500, 404, 307])
def test_an_alarm_nobody_takes_is_given_up_and_said_in_the_next(sirens: Make, status: int) -> None:
    with receiving(lambda number: status if number <= alarms.ATTEMPTS else 200) as receiver:
        siren = sirens(receiver.url)
        siren.happen("TaskGroupFailed")
        siren.wait(failed=1)
        siren.happen("TaskGroupFailed", key="9.web.shop.demo.1")
        siren.wait(sent=1)
        siren.happen("TaskGroupFailed", key="10.web.shop.demo.1")
        siren.wait(sent=2)
        assert [body["dropped"] for body in receiver.bodies[alarms.ATTEMPTS :]] == [1, 0]


def test_a_receiver_that_hangs_holds_up_nobody(sirens: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarms, "QUEUE", 5)
    with receiving(lambda number: SILENT) as receiver:
        siren = sirens(receiver.url, timeout=20.0)
        siren.happen("TaskGroupFailed")
        wait_for(lambda: receiver.bodies, what="the first post")
        for index in range(1_000, 1_020):
            siren.happen("TaskGroupFailed", key=f"{index}.web.shop.demo.1")
        assert len(receiver.bodies) == 1 and not siren.counts["failed"], "all are queued while the first post hangs"
        assert (siren.alarms.waiting, siren.counts["dropped"]) == (5, 15)


@pytest.mark.parametrize("hanging", [SILENT, DRIPPING])
def test_a_receiver_that_hangs_is_given_up_after_the_timeout(sirens: Make, hanging: int) -> None:
    mended = threading.Event()
    with receiving(lambda number: 200 if mended.is_set() else hanging) as receiver:
        siren = sirens(receiver.url, timeout=0.1)
        siren.happen("TaskGroupFailed")
        siren.wait(failed=1)
        mended.set()
        siren.alarms._options = AlarmSettings(url=receiver.url, timeout=30.0)
        siren.happen("TaskGroupLost", key="9.web.shop.demo.1")
        siren.wait(sent=1)
        assert receiver.bodies[-1]["dropped"] == 1


def test_nobody_at_the_address_is_a_failure_too(sirens: Make) -> None:
    with receiving() as receiver:
        url = receiver.url
    siren = sirens(url)
    siren.happen("TaskGroupFailed")
    siren.wait(failed=1)
