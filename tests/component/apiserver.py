"""An HTTP API to test against: a real server over a gateway that is a bare core."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests

from bcs_scheduler.api.admission import Admission
from bcs_scheduler.api.http.app import Pages, create_app
from bcs_scheduler.api.http.operation import BASE, ApiSettings
from bcs_scheduler.api.http.request_gate import RequestGate
from bcs_scheduler.api.http.server import ApiServer
from bcs_scheduler.api.sessions.relay import SessionMetrics
from bcs_scheduler.leadership.gateway import Gateway
from tests.unit.api_support import CoreGateway

TIMEOUT = 40.0
"""Seconds: longer than any answer takes on a busy machine, shorter than the longest watch (`WATCH`)."""
WATCH = 59.0
"""Seconds that a watch lasts which has to be told of a change: a watch that is never told does not answer in time."""


class Switchboard:
    """Stands between one server and the gateway of the test that runs, so that not every test starts a server."""

    def __init__(self) -> None:
        self.gateway = CoreGateway()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.gateway, name)


class Api:
    """Requests relative to the API's base path; answers are responses of `requests`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False

    def call(self, method: str, path: str, *, base: str = BASE, **more: Any) -> requests.Response:
        return self._session.request(method, self.url + base + path, timeout=TIMEOUT, allow_redirects=False, **more)

    def get(self, path: str, **more: Any) -> requests.Response:
        return self.call("GET", path, **more)

    def data(self, path: str, **more: Any) -> Any:
        """`data` of a successful GET."""
        response = self.get(path, **more)
        assert response.status_code == 200, response.text
        return response.json()["data"]

    def close(self) -> None:
        self._session.close()


@contextmanager
def serving(
    gateway: Gateway,
    settings: ApiSettings | None = None,
    admission: Admission | None = None,
    gate: RequestGate | None = None,
    sessions: SessionMetrics | None = None,
    pages: Pages | None = None,
) -> Iterator[Api]:
    server = ApiServer()
    server.start(create_app(gateway, settings, gate, admission, sessions, pages))
    api = Api(server.url)
    try:
        yield api
    finally:
        api.close()
        server.stop()


def paths(response: requests.Response) -> set[str]:
    """Paths of the problems of a refusal."""
    return {problem["path"] for problem in response.json()["data"]["problems"]}
