"""Records that are too deep for redaction hide no other record and no turn of the decision log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bcs_scheduler.core.interface.requests import PutConfigMap
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.decisions.format import Records, Turn, frames
from bcs_scheduler.decisions.log import DecisionLog, file_name
from bcs_scheduler.decisions.recorded import RecordedCore
from bcs_scheduler.decisions.replay import Replay
from store.records import Command, ConfigItem, ConfigMap, CustomKind, CustomObject, Record
from store.state import State

LEVELS = 900
PASSWORD = "hush"
NOW = 1_700_000_000.0


def nested() -> Any:
    made: Any = {"password": PASSWORD}
    for _ in range(LEVELS):
        made = {"a": made}
    return made


def config_map(name: str, content: str = "aGVsbG8=") -> ConfigMap:
    return ConfigMap(namespace="shop", name=name, items={"key": ConfigItem(content=content)})


def test_a_term_with_records_that_are_too_deep_is_repeated(tmp_path: Path) -> None:
    raw = json.dumps({"kind": "Shelf", "spec": nested()})
    records: list[Record] = [
        CustomKind(name="Shelf"),
        CustomObject(type="Shelf", namespace="shop", name="deep", raw=raw),
        Command(
            id="Application-shop-web-1",
            namespace="shop",
            application="web",
            type="signal",
            body=nested(),
            created_at=NOW,
            deadline=NOW + 1e6,
            keep_until=NOW + 2e6,
        ),
        *(config_map(f"c{number}") for number in range(20)),
    ]
    options = CoreOptions(strict=True)
    log = DecisionLog(tmp_path, 1 << 24, 10, {})
    log.start()
    core = RecordedCore(log, 1, State(records), options, NOW, None, None)
    core.turn([PutConfigMap(config_map=config_map("new"), token=1)], NOW)
    core.turn([PutConfigMap(config_map=config_map("c1", "b3RoZXI="), create=False, token=2)], NOW + 1)
    log.stop(60.0)
    assert log.lost == 0
    path = tmp_path / file_name(1, 0)
    assert PASSWORD.encode() not in path.read_bytes()
    with path.open("rb") as file:
        found = list(frames(file, "log"))
    kept = {(kind, key): data for frame in found if isinstance(frame, Records) for kind, key, data in frame.records}
    assert len(kept) == len(records)
    assert not any(PASSWORD.encode() in data for data in kept.values())
    assert sum(isinstance(frame, Turn) for frame in found) == 2
    custom = next(data for (kind, _), data in kept.items() if kind == "customobject")
    assert len(json.loads(custom)["raw"]) == len(json.dumps(raw)) - 2, "replaced as a whole, in the same length"

    result = Replay(path, lambda begin: options).run()
    assert result.gaps == [] and result.records == len(records) - 1
    (left_out,) = result.left_out
    assert left_out == "command Application-shop-web-1 was left out of the log (RecursionError)"
    assert (result.turns, result.difference) == (2, None), "turns that do not need the record are repeated"
