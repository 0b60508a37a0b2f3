"""A folder like that of the source, with two terminals, as the README has them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.commandblocks import ROOT, Block, collected
from tests.integration.devprocess import PORTS, claim_ports
from tests.integration.newest import environment
from tests.integration.typing_terminal import TypingTerminal


class Desk:
    """A folder like that of the source, and what runs there."""

    def __init__(self, folder: Path, columns: int = 80) -> None:
        self.folder = folder / "source"
        self.folder.mkdir()
        for path in ROOT.iterdir():
            if path.name not in (".venv", "data", ".git", "build", "dist"):
                (self.folder / path.name).symlink_to(path)
        # A finished one, so that `make venv` has nothing to do.
        environment(self.folder / ".venv")
        (self.folder / ".venv" / ".ready").touch()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BCS_", "COLUMNS", "LINES"))}
        kept.pop("VIRTUAL_ENV", None)
        kept["PATH"] = os.pathsep.join(
            path for path in kept["PATH"].split(os.pathsep) if not Path(path, "bcs").exists()
        )
        home = folder / "home"
        home.mkdir()
        first, self._claim = claim_ports()
        self.environment = {**kept, "HOME": str(home), "BCS_DEV_PORTS": f"{first}-{first + PORTS - 1}"}
        self.first, self.second = (TypingTerminal(self.folder, self.environment, columns) for _ in range(2))

    def close(self) -> None:
        self.first.close()
        self.second.close()
        self._claim.close()


def named(name: str) -> Block:
    return next(block for block in collected() if block.name == name)


def started(desk: Desk) -> str:
    """The address of `bcs-scheduler dev` in the first terminal; the second one knows it."""
    for name in ("README.md: make venv &&", "README.md: bcs-scheduler dev"):
        for line in named(name).commands:
            desk.first.type(line)
    shown = desk.first.until("to start without objects.")
    url = re.search(r"^api (http://\S+)$", shown, re.MULTILINE)
    assert url is not None
    if url[1] != "http://127.0.0.1:8080":  # the usual port is taken on this machine: as `bcs-scheduler dev` says
        assert desk.second.run(f"export BCS_SERVER={url[1]}")[0] == 0
    return url[1]
