"""Sandboxes: where they lie, and how a command is made to run in one."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from pathlib import Path

from bcs_scheduler.local.agents.process import Command
from bcs_scheduler.local.objects.model import Executor
from bcs_scheduler.mesos.proto import mesos_pb2 as pb


def virtual_path(executor: Executor) -> str:
    """Under which the files API of an agent shows the newest sandbox of the executor."""
    return f"/frameworks/{executor.framework.id}/executors/{executor.id}/runs/latest"


def sandbox_path(root: Path, executor: Executor) -> Path:
    """In the layout of a Mesos agent below `root`."""
    runs = root / "frameworks" / executor.framework.id / "executors" / executor.id / "runs"
    return runs / executor.container_id


def make_sandbox(sandbox: Path) -> None:
    """``latest`` beside it leads to it. Raises OSError."""
    sandbox.mkdir(parents=True)
    latest = sandbox.with_name("latest")
    latest.unlink(missing_ok=True)
    latest.symlink_to(sandbox.name)


def command_in(sandbox: Path, info: pb.CommandInfo, user: str, env: dict[str, str], *, output: Path | None) -> Command:
    """The command with `sandbox` as its working directory, which is given to the user it runs as."""
    switch = os.geteuid() == 0 and user not in ("", "root")
    if switch and output is not None:
        _give_to(output, user)
    return Command(
        program="/bin/sh" if info.shell else info.value,
        argv=["sh", "-c", info.value] if info.shell else list(info.arguments) or [info.value],
        env=env,
        cwd=sandbox,
        output=output,
        user=user if switch else None,
    )


def _give_to(directory: Path, user: str) -> None:
    with suppress(KeyError, OSError):  # the launcher will report the error of the user
        entry = pwd.getpwnam(user)
        for path in (directory, *directory.rglob("*")):
            os.chown(path, entry.pw_uid, entry.pw_gid)
