"""Checks that the leading master can be reached from this host, without a subscription."""

from __future__ import annotations

import time

from bcs_scheduler.mesos.errors import DetectionError, MesosError
from bcs_scheduler.mesos.settings import MesosSettings
from bcs_scheduler.mesos.transport.detect import make_detector
from bcs_scheduler.mesos.transport.http import Master, redirect_target
from bcs_scheduler.mesos.transport.question import ask

DETECTION = 5.0
"""Seconds the detection of the leading master may take."""
ANSWER = 3.0
"""Seconds a master may take to connect, and again to answer."""
LOOK_AGAIN = 0.1
REDIRECTS = (301, 302, 303, 307, 308)


def reaches_master(settings: MesosSettings) -> bool:
    """True if the leading master answers HTTP. Whether it would accept a subscription is not tried: that would take the
    framework from the leader. Takes up to about DETECTION + 6 * ANSWER seconds."""
    detector = make_detector(settings.master)
    headers = settings.headers()
    detector.start(lambda: None)
    try:
        deadline = time.monotonic() + DETECTION
        while True:
            try:
                candidates = detector.candidates()
                break
            except DetectionError:
                if time.monotonic() > deadline:
                    return False
                time.sleep(LOOK_AGAIN)
        return any(_answers(master, headers) for master in candidates)
    finally:
        detector.stop()


def _answers(master: Master, headers: dict[str, str]) -> bool:
    """This master, and the leading one if it names another."""
    location = _ask(master, "/redirect", headers)
    if location is None:
        return False
    if not location:
        return True
    try:
        leading = redirect_target(location)
    except MesosError:
        return False
    return leading == master or _ask(leading, "/health", headers) is not None


def _ask(master: Master, path: str, headers: dict[str, str]) -> str | None:
    """Returns the address that the master redirects to, empty if it does not redirect; None if it does not answer, or
    answers with an error."""
    try:
        answer = ask(master, path, headers, timeout=ANSWER)
    except MesosError:
        return None
    if answer.status >= 500:
        return None
    return answer.headers.get("Location", "") if answer.status in REDIRECTS else ""
