"""The program `bcs-scheduler`. The modules of a command are loaded when the command is used."""

from __future__ import annotations

import sys

import click

from bcs_scheduler.cli.lazy import Entry, LazyGroup
from bcs_scheduler.loop import gc_tuning
from bcs_scheduler.version import VERSION

FOREGROUND, ADMIN = "bcs_scheduler.foreground", "bcs_scheduler.admin.commands"
COMMANDS = {
    "Commands": {
        "serve": Entry(FOREGROUND, "serve", "Run the scheduler."),
        "dev": Entry(FOREGROUND, "dev", "Run a scheduler with a small embedded cluster."),
        "local-mesos": Entry("bcs_scheduler.local.main", "local_mesos", "Run an embedded cluster by itself."),
        "replay": Entry("bcs_scheduler.admin.replay", "replay", "Repeat the decisions of a decision log."),
        "token": Entry(ADMIN, "token", "Tokens for the HTTP API."),
        "key": Entry(ADMIN, "key", "Keys that encrypt secrets in the store."),
        "reseal": Entry(ADMIN, "reseal", "Encrypt confidential records with the first key."),
        "protect-store": Entry(ADMIN, "protect_store", "Close all nodes in ZooKeeper to others."),
        "framework": Entry(ADMIN, "framework", "The framework id, and tasks that the store does not know."),
        "set-framework": Entry(ADMIN, "set_framework", "Store the framework id of this scheduler."),
        "forget-framework": Entry(ADMIN, "forget_framework", "Drop the stored framework id."),
        "manual": Entry("bcs_scheduler.admin.manual", "manual", "Write manual pages and shell completion."),
    }
}


class Programs(LazyGroup):
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        gc_tuning.tune_imports()
        import_structlog()
        return super().get_command(ctx, cmd_name)


def import_structlog() -> None:
    """Imports structlog without `rich`, which structlog loads for tracebacks that the logs of these programs do not
    use: a twelfth of the processor time of all imports of `serve`."""
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]  # an import of it fails
    try:
        import structlog  # noqa: F401
    finally:
        if hidden:
            del sys.modules["rich"]


@click.group(cls=Programs, sections=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="bcs-scheduler")
def main() -> None:
    """A framework scheduler for Apache Mesos."""


if __name__ == "__main__":
    main()
