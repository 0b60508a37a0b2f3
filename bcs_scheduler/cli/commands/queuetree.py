"""The commands of `bcs queue` for the trees of queues of the policy `hierarchical`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import partition_names, queue_names
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.options import (
    connection_options,
    dry_run_option,
    examples,
    list_options,
    pass_session,
    reporting,
)
from bcs_scheduler.cli.session import Session

Command = TypeVar("Command", bound=Callable[..., Any])

names_argument = click.argument("names", nargs=-1, required=True, metavar="QUEUE...", shell_complete=queue_names)


def _partition_option(default: str) -> Callable[[Command], Command]:
    """The option that names a partition. `default`: the partitions that count if the user names none."""
    return click.option(
        "-P",
        "--partition",
        default="",
        metavar="NAME",
        shell_complete=partition_names,
        help=f"Of trees: the partition of roles. Default: {default}.",
    )


partition_option = _partition_option("the only one with a tree, or default")
listed_partition_option = _partition_option("all with a tree")
expected_option = click.option(
    "--expected", type=click.IntRange(0), metavar="N", help="Refuse the change unless revision N counts at present."
)


@click.command(
    "apply",
    epilog=examples("bcs queue apply -f queues.yaml --dry-run", "bcs queue apply -f queues.yaml --expected 7"),
)
@click.option(
    "-f", "--filename", "file", required=True, metavar="FILE", help="The tree, YAML or JSON; - is standard input."
)
@partition_option
@expected_option
@dry_run_option
@connection_options
@pass_session
@reporting
def apply_tree(session: Session, /, file: str, partition: str, expected: int | None, dry_run: bool) -> None:
    """Make a file the next revision of the tree of queues.

    The file has the shape of YuniKorn's queues.yaml. The whole file is validated, and takes effect without a restart.
    If several partitions have a tree, a partition that the file names counts where --partition is not given.
    With --dry-run, the taskgroups that would wait and those that would be preempted are shown.
    """
    from bcs_scheduler.cli.kinds.objects.queuetrees import report_tree

    answer = session.client.put_queue_tree(_document(file), expected=expected, dry_run=dry_run, partition=partition)
    report_tree(session, "root", "applied", answer, dry_run)


@click.command("rollback", epilog=examples("bcs queue rollback", "bcs queue rollback --to 3 --dry-run"))
@click.option("--to", "revision", type=click.IntRange(1), metavar="N", help="Default: the one before the present.")
@partition_option
@expected_option
@dry_run_option
@connection_options
@pass_session
@reporting
def roll_back(session: Session, /, revision: int | None, partition: str, expected: int | None, dry_run: bool) -> None:
    """Make the tree of an earlier revision the next revision."""
    from bcs_scheduler.cli.kinds.objects.queuetrees import report_tree

    answer = session.client.roll_back_queue_tree(revision, expected=expected, dry_run=dry_run, partition=partition)
    report_tree(session, "root", "rolled back", answer, dry_run)


@click.command(
    "history",
    epilog=examples("bcs queue history", "bcs queue history --revision 3", "bcs queue history --diff 3 5"),
)
@click.option("--revision", type=click.IntRange(1), metavar="N", help="Show the tree of this revision as YAML.")
@click.option(
    "--diff", "compared", type=click.IntRange(1), nargs=2, metavar="N M", help="Show the changes from N to M."
)
@partition_option
@list_options
@connection_options
@pass_session
def history(
    session: Session, /, revision: int | None, compared: tuple[int, int] | None, partition: str, **listed: Any
) -> None:
    """List the kept revisions of the tree of queues. A * marks the present one."""
    from bcs_scheduler.cli.kinds.objects.queuetrees import REVISION_COLUMNS
    from bcs_scheduler.cli.listing import chosen_shape, print_list
    from bcs_scheduler.cli.output.data import print_data

    if revision is not None and compared is not None:
        raise UsageError("give --revision or --diff, not both")
    if revision is not None:
        print_data(session.out, session.client.tree_revision(revision, partition)["spec"], "yaml")
    elif compared is not None:
        _show_difference(session, *compared, partition)
    else:
        found = session.client.tree_revisions(partition)
        shape = chosen_shape(**listed)
        print_list(session, shape, found, REVISION_COLUMNS, lambda one: f"revision/{one['metadata']['revision']}")


@click.command("export", epilog=examples("bcs queue export > queues.yaml"))
@click.option("-o", "--output", type=click.Choice(("yaml", "json")), default="yaml", help="Default: yaml.")
@partition_option
@connection_options
@pass_session
def export(session: Session, output: str, partition: str) -> None:
    """Print the tree of queues that counts, as `bcs queue apply` takes it."""
    from bcs_scheduler.cli.output.data import print_data

    print_data(session.out, session.client.queue_tree(partition)["spec"], output)


def _halting(action: str, done: str, words: str, *shown: str) -> click.Command:
    """A command that changes the state of queues. `done`: the word of its report; `shown`: examples."""

    @click.command(action, help=words, epilog=examples(*shown))
    @names_argument
    @partition_option
    @dry_run_option
    @connection_options
    @pass_session
    @reporting
    def command(session: Session, /, names: tuple[str, ...], partition: str, dry_run: bool) -> None:
        from bcs_scheduler.cli.kinds.objects.queuetrees import full_name, report_tree

        for name in names:
            answer = session.client.set_tree_queue(full_name(name), action, dry_run=dry_run, partition=partition)
            report_tree(session, full_name(name), done, answer, dry_run)

    return command


stop = _halting(
    "stop",
    "stopped",
    "Stop queues of the tree: they place nothing and take no applications. Running taskgroups stay.",
    "bcs queue stop root.batch",
    "bcs queue stop root.batch --dry-run",
)
drain = _halting(
    "drain",
    "draining",
    "Let queues of the tree drain: they take no applications, and place those that they have.",
    "bcs queue drain root.batch",
)
start = _halting(
    "start", "started", "Start queues of the tree that are stopped or drain.", "bcs queue start root.batch"
)


def _document(file: str) -> Json:
    """The tree in a file. Raises UsageError."""
    from bcs_scheduler.cli.document_files import bodies_of

    bodies = [body for _, body in bodies_of(file)]
    if len(bodies) != 1 or not isinstance(bodies[0], dict):
        raise UsageError(
            f"{file}: holds {len(bodies)} documents; one object with the field queues or partitions is needed"
        )
    found: Json = bodies[0]
    return found


def _show_difference(session: Session, before: int, after: int, partition: str) -> None:
    import difflib

    from bcs_scheduler.cli.commands.changing.diff import STYLES
    from bcs_scheduler.cli.output.terminal import Styled
    from bcs_scheduler.wire.yamltext import text_of

    old, new = (
        text_of(session.client.tree_revision(number, partition)["spec"]).splitlines() for number in (before, after)
    )
    for line in difflib.unified_diff(old, new, f"revision {before}", f"revision {after}", lineterm=""):
        session.out.print(Styled(line, style=STYLES.get(line[:1], "")))


@click.command("partitions", epilog=examples("bcs queue partitions", "bcs queue list --partition batch"))
@list_options
@connection_options
@pass_session
def list_partitions(session: Session, /, **listed: Any) -> None:
    """List the partitions of roles with their policies, and the revisions of their trees."""
    from bcs_scheduler.cli.kinds.objects.queuetrees import PARTITION_COLUMNS
    from bcs_scheduler.cli.listing import chosen_shape, print_list

    found, shape = session.client.partitions(), chosen_shape(**listed)
    print_list(session, shape, found, PARTITION_COLUMNS, lambda one: f"partition/{one['name']}")


COMMANDS = (list_partitions, apply_tree, roll_back, history, export, stop, drain, start)
