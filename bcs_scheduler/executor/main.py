"""Entry point of the executor. The warden is forked off before anything else is imported."""

from __future__ import annotations

import os
import sys

from . import warden


def main() -> int:
    watched = warden.split()

    import logging

    from .session import Session
    from .settings import Settings, SettingsError

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        settings = Settings.of(os.environ)
    except SettingsError as error:
        print(f"bcs-executor: {error}", file=sys.stderr)
        return 2
    return Session(settings, watched).run()
