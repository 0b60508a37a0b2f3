"""What the start of `bcs` costs: processor time of whole processes.

The modules of `bcs` are compiled before, as pip does when it installs them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from store import threads

RUNS = 9
FEW, MANY = 10, 1000
"""Applications in the answer of the server."""
COMPLETION = {"_BCS_COMPLETE": "bash_complete", "COMP_WORDS": "bcs ge", "COMP_CWORD": "1"}
COMPLETED_NAME = {"_BCS_COMPLETE": "bash_complete", "COMP_WORDS": "bcs get app app-1", "COMP_CWORD": "3"}
PROGRAM = [sys.executable, "-m", "bcs_scheduler.cli.main"]


class Measured(NamedTuple):
    """Seconds of processor time, the least of several runs."""

    python: float
    """Of an interpreter that does nothing; a part of all others."""
    help: float
    completion: float
    """Of the name of a command."""
    completed_name: float
    """Of the name of an application, which the server is asked for."""
    get: float
    """`bcs get app` with the answer of a server and a table of FEW rows."""
    get_many: float
    """The same with MANY rows."""


def measure(runs: int = RUNS) -> Measured:
    with _server(FEW) as few, _server(MANY) as many, tempfile.TemporaryDirectory() as compiled:
        environment = {"BCS_SERVER": few, "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
        return Measured(
            _seconds([sys.executable, "-c", "pass"], environment, runs),
            _seconds([*PROGRAM, "--help"], environment, runs),
            _seconds(PROGRAM, COMPLETION | environment, runs),
            _seconds(PROGRAM, COMPLETED_NAME | environment, runs),
            _seconds([*PROGRAM, "get", "app"], environment, runs),
            _seconds([*PROGRAM, "get", "app"], environment | {"BCS_SERVER": many}, runs),
        )


@contextmanager
def _server(listed: int) -> Iterator[str]:
    """The URL of a server that answers every request with a list of that many applications."""
    applications: list[dict[str, Any]] = [
        {"Name": f"app-{number}", "RunAs": "defaultGroup", "Status": "Running", "Created": 1.7e9, "Message": ""}
        | dict.fromkeys(("DefineInstances", "Instances", "RunningInstances"), 3)
        for number in range(listed)
    ]
    content = json.dumps({"result": True, "code": 0, "message": "success", "data": applications}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threads.ending("server", server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _seconds(command: list[str], environment: dict[str, str], runs: int) -> float:
    """The least of several runs: other processes of the machine only add. A run before these compiles the modules."""
    found = []
    for _ in range(1 + runs):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, env={**os.environ, "BCS_CONFIG": os.devnull, **environment}
        )
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise RuntimeError(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
        found.append(usage.ru_utime + usage.ru_stime)
    return min(found[1:])
