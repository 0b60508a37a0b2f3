"""What is done about containers whose executor has died: they run on by themselves, and nobody would ever end them."""

from __future__ import annotations

import json

from .engine import Engine, EngineError, NotFound
from .translate import LABEL_KEEP, LABEL_TASKGROUP


def reap(socket: str, taskgroup: str) -> None:
    """Kills and removes all containers of a taskgroup; those with rm=false are only killed. `socket`: path of the
    engine's. Raises EngineError for what could not be removed, after the others have been."""
    engine = Engine(socket)
    filters = json.dumps({"label": [f"{LABEL_TASKGROUP}={taskgroup}"]})
    trouble: EngineError | None = None
    for found in engine.call("GET", "/containers/json", {"all": "true", "filters": filters}) or ():
        try:
            _remove(engine, found)
        except NotFound:
            continue
        except EngineError as error:
            trouble = error
    if trouble is not None:
        raise trouble


def _remove(engine: Engine, found: dict[str, object]) -> None:
    labels = found.get("Labels")
    if not isinstance(labels, dict) or LABEL_KEEP not in labels:
        remove(engine, str(found["Id"]))
    elif found.get("State") == "running":
        engine.call("POST", f"/containers/{found['Id']}/kill")


def remove(engine: Engine, container: str) -> None:
    """With its anonymous volumes, also while it runs. Raises NotFound if there is none."""
    engine.call("DELETE", f"/containers/{container}", {"force": "true", "v": "true"})
