"""The decision log of a process that is killed is repeated by another process, and holds no secret."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from bcs_scheduler.decisions.format import frames

CONFIDENTIAL = "correct-horse-battery-staple"
PATIENCE = 60.0


def bcs(url: str, *arguments: str, document: object = None) -> str:
    command = [sys.executable, "-m", "bcs_scheduler.cli.main", "--server", url, *arguments]
    return subprocess.run(command, input=json.dumps(document), stdout=subprocess.PIPE, text=True, check=True).stdout


def until_runs(url: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while "Running" not in bcs(url, "get", "taskgroups"):
        assert time.monotonic() < deadline, "no taskgroup runs"
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
        content = base64.b64encode(CONFIDENTIAL.encode()).decode()
        secret = {"kind": "secret", "metadata": meta, "datas": {"k": {"content": content}}}
        bcs(url, "apply", "-f", "-", document=secret)
        document = json.loads((Path(__file__).parents[2] / "conf/examples/web.json").read_text())
        document["metadata"]["name"] = "logged"
        bcs(url, "apply", "-f", "-", document=document)
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
