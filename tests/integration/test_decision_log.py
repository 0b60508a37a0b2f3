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

import pytest
import requests

from bcs_scheduler.decisions.format import frames
from bcs_scheduler.decisions.log import file_name

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


def replayed(place: Path) -> subprocess.CompletedProcess[str]:
    """`bcs-scheduler replay`, in a process with other hashes than those of the recorded one."""
    return subprocess.run(
        [sys.executable, "-m", "bcs_scheduler.main", "replay", str(place)],
        env={**os.environ, "PYTHONHASHSEED": "2"},
        capture_output=True,
        text=True,
        check=False,
    )


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
    done = replayed(path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CreateApplication" in content


@pytest.mark.rotating
def test_a_long_run_is_recorded_in_terms_within_the_bound(tmp_path: Path) -> None:
    folder = tmp_path / "decisions"
    given = {"FOLDER": str(folder), "FILES": "4", "FILE_BYTES": "65536", "TERM_SECONDS": "0.1"}
    environ = {**os.environ, **{f"BCS_DECISIONS_{name}": value for name, value in given.items()}, "BCS_DEV_PORTS": ""}
    command = [sys.executable, "-m", "bcs_scheduler.main", "dev", "--data", str(tmp_path / "data"), "--api"]
    process = subprocess.Popen([*command, "127.0.0.1:0"], env=environ, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        document = json.loads((Path(__file__).parents[2] / "conf/examples/web.json").read_text())
        document["metadata"]["name"] = "logged"
        bcs(url, "apply", "-f", "-", document=document)
        until_runs(url)
        deadline, number, session = time.monotonic() + PATIENCE, 0, requests.Session()
        while not (folder / file_name(3, 0)).exists():
            assert time.monotonic() < deadline, "no third term"
            number += 1
            path = f"applications/logged/scale/{10 + number % 90}?dryRun=true"
            answer = session.put(f"{url}/v4/scheduler/mesos/namespaces/defaultGroup/{path}", timeout=PATIENCE)
            refusal = answer.json()["data"]["reason"] if answer.status_code != 200 else ""
            assert answer.status_code in (200, 503) or refusal == "stepped_down", answer.text
        until_runs(url)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(list(folder.iterdir())) <= 4
    done = replayed(folder)
    assert done.returncode == 0, done.stdout + done.stderr
