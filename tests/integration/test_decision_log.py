"""The decision log of a process that is killed is repeated by another process, and holds no secret."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from bcs_scheduler.decisions.format import frames

CONFIDENTIAL = "correct-horse-battery-staple"
PATIENCE = 60.0


def call(url: str, document: object | None = None) -> object:
    data = json.dumps(document).encode() if document is not None else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def until_runs(url: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        if "Running" in json.dumps(call(f"{url}/api/v1/namespaces/default/applications/logged")):
            return
        assert time.monotonic() < deadline, "the application does not run"
        time.sleep(0.1)


def test_the_log_of_a_killed_process_repeats_every_decision(tmp_path: Path) -> None:
    folder = tmp_path / "decisions"
    environ = {**os.environ, "BCS_DECISIONS_FOLDER": str(folder), "BCS_DEV_PORTS": "", "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-m", "bcs_scheduler.main", "dev", "--data", str(tmp_path / "data"), "--api"]
    process = subprocess.Popen([*command, "127.0.0.1:0"], env=environ, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        meta = {"name": "logged", "namespace": "default"}
        secret = {"kind": "secret", "metadata": meta, "datas": {"k": {"content": CONFIDENTIAL}}}
        secret["datas"] = {"k": {"content": base64.b64encode(CONFIDENTIAL.encode()).decode()}}
        subprocess.run(
            [sys.executable, "-m", "bcs_scheduler.cli.main", "--server", url, "apply", "-f", "-"],
            input=json.dumps(secret),
            text=True,
            check=True,
        )
        document = json.loads((Path(__file__).parents[2] / "conf/examples/web.json").read_text())
        document["metadata"]["name"] = "logged"
        subprocess.run(
            [sys.executable, "-m", "bcs_scheduler.cli.main", "--server", url, "apply", "-f", "-"],
            input=json.dumps(document),
            text=True,
            check=True,
        )
        until_runs(url)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    (path,) = folder.glob("*.log")
    with path.open("rb") as file:
        content = repr(list(frames(file, str(path))))
    for form in (CONFIDENTIAL, base64.b64encode(CONFIDENTIAL.encode()).decode()):
        assert form not in content
    assert "PutSecret" in content
    done = subprocess.run(
        [sys.executable, "-m", "bcs_scheduler.main", "replay", str(path)],
        env={**os.environ, "PYTHONHASHSEED": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CreateApplication" in content
