"""A note in the executor's sandbox that it has containers. The process that outlives the executor reads the note and
removes the containers.

The note names that process, so that an agent that ends the taskgroup by force can spare it until the containers are
gone (docs/executor-protocol.md).

The module imports very little: it is part of the supervisor of every executor, and most executors have no containers.
"""

from __future__ import annotations

import os
import sys

NOTE = ".containers"


def leave(sandbox: str, socket: str, taskgroup: str) -> None:
    """Before the first container is made, by the executor, whose parent is the supervisor. Whole or not at all: the
    reader may come at any time."""
    import json

    path = os.path.join(sandbox, NOTE)
    with open(f"{path}.new", "w") as file:
        json.dump({"socket": socket, "taskgroup": taskgroup, "supervisor": os.getppid()}, file)
    os.replace(f"{path}.new", path)


def follow(sandbox: str) -> None:
    """Removes the containers of an executor that has ended, if there is a note of any. Never raises."""
    path = os.path.join(sandbox, NOTE)
    if not os.path.exists(path):
        return
    try:
        import json

        from .reap import reap

        with open(path) as file:
            found = json.load(file)
        reap(found["socket"], found["taskgroup"])
    except Exception as error:
        print(f"containers may be left behind: {error}", file=sys.stderr)
