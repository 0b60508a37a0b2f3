"""The folder `conf`: example documents and files of settings. An installed package has the folder inside, a source tree
beside the package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
CONF = _PACKAGE / "conf" if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent / "conf"
EXAMPLES = CONF / "examples"
