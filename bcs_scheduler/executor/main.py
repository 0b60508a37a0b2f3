"""Entry point of the executor. The supervisor is forked off before anything else is imported."""

from __future__ import annotations

import os
import sys

from . import supervisor


def main() -> int:
    if sys.argv[1:] == ["session"]:
        from .sessions import enter

        return enter.main()
    watched = supervisor.split()

    import logging

    from .agent.session import Session
    from .settings import Settings, SettingsError

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        settings = Settings.of(os.environ)
    except SettingsError as error:
        print(f"bcs-executor: {error}", file=sys.stderr)
        return 2
    return Session(settings, watched).run()
