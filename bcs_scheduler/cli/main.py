"""`bcs`: the table of all commands, and the run of one. Exit codes: bcs_scheduler.cli.errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from bcs_scheduler.cli.errors import EXIT_CODES, INTERRUPTED, CliError, InternalError
from bcs_scheduler.cli.habits import rewritten
from bcs_scheduler.cli.lazy import COMPLETION, Entry, LazyGroup, Sections
from bcs_scheduler.cli.options import connection_options

STANDARD_OUTPUT = 1
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of bcs_scheduler."""
CHANGING = "bcs_scheduler.cli.commands.changing"
READING = "bcs_scheduler.cli.commands.reading"
TASKGROUPS = "bcs_scheduler.cli.commands.taskgroups"
AGENTS = "bcs_scheduler.cli.commands.agents"
ABOUT = "bcs_scheduler.cli.commands.about"
SHIPPED = "bcs_scheduler.cli.commands.shipped"

COMMANDS: Sections = {
    "Documents": {
        "apply": Entry(f"{CHANGING}.apply", "apply", "Create or update the objects of documents."),
        "diff": Entry(f"{CHANGING}.diff", "diff", "Show the changes that `bcs apply` would make."),
        "create": Entry(f"{CHANGING}.create", "create", "Create an object from options."),
        "update": Entry(f"{CHANGING}.apply", "update", "Update existing objects from documents."),
        "edit": Entry(f"{CHANGING}.editing", "edit", "Edit the document of an object."),
        "patch": Entry(f"{CHANGING}.editing", "patch", "Change fields of an object."),
        "label": Entry(f"{CHANGING}.editing", "label", "Set or remove labels of an object."),
        "delete": Entry(f"{CHANGING}.apply", "delete", "Delete objects."),
    },
    "Objects": {
        "get": Entry(f"{READING}.get", "get", "List objects of one kind, or show one."),
        "describe": Entry(f"{READING}.describe", "describe", "Show one object in detail."),
        "explain": Entry(f"{READING}.describe", "explain", "Show why a workload is not running."),
        "story": Entry(f"{READING}.describe", "story", "Show the events of an object by cause."),
        "events": Entry(f"{READING}.get", "events", "List events, or follow them."),
        "top": Entry(f"{READING}.top", "top", "Show used and allocated resources."),
        "wait": Entry(f"{CHANGING}.transactions", "wait", "Wait for a workload or a transaction."),
        "cancel": Entry(f"{CHANGING}.transactions", "cancel", "Cancel a transaction."),
        "follow": Entry(f"{READING}.follow", "follow", "Render a file from the endpoints of services."),
    },
    "Workloads": {
        "run": Entry(f"{CHANGING}.running", "run", "Run an image or a command as an application."),
        "scale": Entry(f"{CHANGING}.apply", "scale", "Change the number of taskgroups."),
        "rollout": Entry(f"{CHANGING}.rollout", "rollout", "Manage updates of deployments and daemonsets."),
        "rollback": Entry(f"{CHANGING}.apply", "rollback", "Return to an earlier version."),
    },
    "Taskgroups": {
        "logs": Entry(f"{READING}.logs", "logs", "Print the output of taskgroups."),
        "exec": Entry(f"{TASKGROUPS}.execute", "execute", "Run a command in taskgroups."),
        "attach": Entry(f"{TASKGROUPS}.attaching", "attach", "Follow the output of a running task."),
        "port-forward": Entry(f"{TASKGROUPS}.forwarding", "port_forward", "Forward local ports to a taskgroup."),
        "cp": Entry(f"{TASKGROUPS}.copying", "copy", "Copy a file to or from taskgroups."),
        "signal": Entry(f"{TASKGROUPS}.messages", "signal", "Send a signal to processes."),
        "restart": Entry(f"{TASKGROUPS}.messages", "restart", "Restart the tasks of taskgroups in place."),
        "reload": Entry(f"{TASKGROUPS}.messages", "reload", "Make tasks reload their configuration."),
        "env": Entry(f"{TASKGROUPS}.messages", "env", "Set an environment variable of tasks."),
        "commit": Entry(f"{TASKGROUPS}.messages", "commit", "Create an image from a container."),
        "reschedule": Entry(f"{CHANGING}.transactions", "reschedule", "Replace one taskgroup."),
    },
    "Queues": {
        "queue": Entry("bcs_scheduler.cli.commands.queue", "queue", "List, show and change queues."),
    },
    "Agents": {
        "cordon": Entry(AGENTS, "cordon", "Place no new taskgroups on agents."),
        "uncordon": Entry(AGENTS, "uncordon", "Place taskgroups on agents again."),
        "drain": Entry(AGENTS, "drain", "Move all taskgroups away from agents."),
        "taint": Entry(AGENTS, "taint", "Set or remove taints of agents."),
        "resume": Entry(AGENTS, "resume", "Replace lost taskgroups again after a large loss."),
        "framework": Entry(
            "bcs_scheduler.cli.commands.framework", "framework", "Decide about tasks that the store does not know."
        ),
        "rebalance": Entry(AGENTS, "rebalance", "Move taskgroups to fewer or more even agents."),
        "set": Entry(
            "bcs_scheduler.cli.commands.settings",
            "settings",
            "Set images of workloads, and settings of agents and namespaces.",
        ),
    },
    "Other": {
        "dump": Entry("bcs_scheduler.cli.commands.dump", "dump", "Write the state of the cluster to a file."),
        "simulate": Entry("bcs_scheduler.cli.commands.simulate", "simulate", "Simulate a load under policies."),
        "config": Entry("bcs_scheduler.cli.commands.config", "config", "Choose and change contexts."),
        "version": Entry(ABOUT, "version", "Print the versions of client and server."),
        "examples": Entry(SHIPPED, "list_examples", "List or print example documents and files of settings."),
        "completion": Entry(ABOUT, "completion", "Print the completion script of a shell."),
        "help": Entry(ABOUT, "help_command", "Print the help of a command."),
    },
}


@click.group(
    cls=LazyGroup,
    sections=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"""Exit codes: {", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())}.

\b
Examples:
  bcs apply -f web.json --wait      create or update objects of documents
  bcs run nginx --port http:80      run an image, or a command after --
  bcs get all                       list workloads, taskgroups and services
  bcs describe deploy/web --events  show one object with its events
  bcs logs web -f                   follow the output of all taskgroups
  bcs config use-context prod       choose another server""",
)
@click.version_option(package_name="bcs-scheduler", message="bcs %(version)s", help="Print the version of bcs.")
@connection_options
def bcs() -> None:
    """Run applications on Apache Mesos with bcs-scheduler.

    `bcs COMMAND --help` shows the options of a command, with examples.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code. Expected failures end in a message, not in a traceback.

    `arguments`: without the name of the program; None = those of the process.
    """
    try:
        given = rewritten(sys.argv[1:] if arguments is None else arguments)
        code = bcs.main(args=given, prog_name="bcs", standalone_mode=False)
    except CliError as error:
        _print_error(error)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except SystemExit as leaving:
        if COMPLETION in os.environ:
            return leaving.code if isinstance(leaving.code, int) else 0
        # click and rich exit so when the reader of a pipe (head, less) has closed it, which is no failure. Buffered
        # output must not be written to the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)
        return 0
    except Exception as error:
        _print_error(_unexpected(error))
        return InternalError.exit_code
    return code if isinstance(code, int) else 0


def _unexpected(error: Exception) -> InternalError:
    """For an error that no code expects: an output that cannot be written, or a defect, with its place."""
    if isinstance(error, OSError):
        return InternalError(f"{error.filename or 'cannot write the output'}: {error.strerror or error}")
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(PACKAGE)]
    place = f"{os.path.relpath(ours[-1].filename, PACKAGE)}, line {ours[-1].lineno}"
    what = f"{type(error).__name__}: {error} ({place})"
    return InternalError(f"bcs has a defect, or the answer of the server has an unexpected form: {what}")


def _print_error(error: CliError) -> None:
    from bcs_scheduler.cli.session import Session

    Session().fail(error)


def main() -> None:
    sys.exit(run())


if __name__ == "__main__":
    main()
