"""The address of a container, in its environment.

Engines draw the address of a container when it starts, too late for its environment. A container with a shell is begun
through a line for that shell, which reads the address from /etc/hosts and becomes the program of the container.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from ..model import Task
from ..runtime import TaskError
from .engine import Engine, NotFound
from .translate import fixed_address, network_of

VARIABLE = "BCS_CONTAINER_IP"
SHELL = "/bin/sh"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
"""Name of a variable that a shell can set."""
_FIND = """read -r own <{hostname}
while read -r address names; do
  for name in $names; do
    if [ "$name" = "$own" ]; then {variable}=$address; fi
  done
done <{hosts}
"""


def told(engine: Engine, container: str, body: dict[str, Any], task: Task) -> dict[str, Any] | None:
    """The body of another create, whose program learns its address, for a container that is made and not started; None
    if the program knows it already, or has no shell to learn it by. Raises TaskError if variables need the address."""
    if network_of(task) in ("host", "none") or fixed_address(task):
        return None
    if not _has_shell(engine, container):
        if task.address_env:
            names = ", ".join(task.address_env)
            raise TaskError(f"{names} need the address of the container, which {SHELL} reads; the image has none")
        return None
    config = engine.call("GET", f"/containers/{container}/json")["Config"]
    command = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    return {**body, "Entrypoint": [SHELL, "-c", line(task.address_env), SHELL], "Cmd": command}


def _has_shell(engine: Engine, container: str) -> bool:
    try:
        with engine.stream("GET", f"/containers/{container}/archive", {"path": SHELL}):
            return True
    except NotFound:
        return False


def line(names: tuple[str, ...], hosts: str = "/etc/hosts", hostname: str = "/etc/hostname") -> str:
    """Becomes its arguments, with the address in BCS_CONTAINER_IP and in the variables of these names."""
    found = _FIND.format(variable=VARIABLE, hosts=shlex.quote(hosts), hostname=shlex.quote(hostname))
    exported = "".join(f" {name}=${VARIABLE}" for name in names if _NAME.match(name))
    others = "".join(f' {shlex.quote(name)}="${VARIABLE}"' for name in names if not _NAME.match(name))
    program = f'exec env{others} "$@"' if others else 'exec "$@"'
    return f"{found}export {VARIABLE}{exported}\n{program}\n"
