"""Packs `conf/` into the package, so that an installed program has the example documents and files of settings."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CONF = Path(__file__).parent / "conf"


class WithConf(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            packed = Path(self.build_lib, "bcs_scheduler", "conf")
            shutil.rmtree(packed, ignore_errors=True)
            shutil.copytree(CONF, packed, ignore=shutil.ignore_patterns("__pycache__"))


setup(cmdclass={"build_py": WithConf})
