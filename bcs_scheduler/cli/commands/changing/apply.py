"""`bcs apply`, `update`, `scale`, `rollback` and `delete`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click

from bcs_scheduler.cli import habits
from bcs_scheduler.cli.client.kinds import ALIASES, KINDS
from bcs_scheduler.cli.client.lookup import OWNERS, TASKGROUP_WORDS, find_owner
from bcs_scheduler.cli.client.types import Accepted
from bcs_scheduler.cli.commands.arguments import deletable_names, owner_argument, owner_names, several
from bcs_scheduler.cli.commands.changing.together import Planned, planned_together
from bcs_scheduler.cli.document_files import load_documents, refuse
from bcs_scheduler.cli.documents import APPLY_ORDER, CUSTOM, Document, UpdateOptions, in_order
from bcs_scheduler.cli.errors import CliError, NotFound, Unreachable, UsageError
from bcs_scheduler.cli.habits import instead_of_kind
from bcs_scheduler.cli.kinds.objects.extensions import registered_kind, unknown_kinds
from bcs_scheduler.cli.kinds.registry import name_of, operations_of
from bcs_scheduler.cli.kinds.selection import chosen, kind_of
from bcs_scheduler.cli.options import (
    RenamedOption,
    changing_command,
    examples,
    field_selector_option,
    file_option,
    files_option,
    on_conflict_option,
    validate_option,
)
from bcs_scheduler.cli.output.documents import owner_of_application
from bcs_scheduler.cli.output.text import counted
from bcs_scheduler.cli.session import Session
from store.advice import advise

Named = tuple[str, str, str]
"""Kind of document, namespace and name of an object."""


def documents_of(session: Session, files: tuple[str, ...]) -> list[Document]:
    """Documents of files, in the order in which they are applied. Raises UsageError with all problems of all files."""
    documents, problems, left_out = load_documents(
        files, session.namespace, namespace_given=session.namespace_given, recursive=session.recursive
    )
    try:
        problems += unknown_kinds(session, documents)
    except CliError as error:
        if not problems:
            raise
        problems.append(UsageError(f"the registered kinds are not known: {error.message}"))
    refuse(problems)
    for line in left_out:
        session.warn(f"{line}: left out")
    if not documents and not left_out:
        raise UsageError(
            f"no documents found in {', '.join('standard input' if file == '-' else file for file in files)}"
        )
    return in_order(documents)


def carry_out(
    session: Session,
    documents: list[Document],
    act: Callable[[Document], Accepted],
    *,
    wait: bool,
    planned: Planned | None = None,
) -> None:
    """Carries out all documents, also after one has failed, and then waits for those that were accepted.

    Raises the error of the only document, with its file and object; of several documents the errors are printed, and
    the last error has the exit code of the first one. `planned`: a common plan; its separate documents are left.
    """
    started: list[tuple[Document, Accepted]] = []
    failures = [_named(*refused) for refused in planned.refused] if planned else []
    for document in planned.separate if planned else documents:
        session.about = f"{document.source}: {document.kind.lower()}/{document.name}: "
        try:
            started.append((document, act(document)))
        except Unreachable as error:
            raise _named(document, error) from error
        except CliError as error:
            failures.append(_named(document, error))
    session.about = ""
    for document, accepted in started if wait else ():
        try:
            operations_of(document.kind).wait_applied(session, document.namespace, document.name, accepted)
        except CliError as error:
            failures.append(_named(document, error))
    _fail(session, counted(len(documents), "document"), len(documents), failures)


def _fail(session: Session, things: str, number: int, failures: list[CliError]) -> None:
    """Raises the failures as `carry_out` says; returns if there are none. `number`: of the things."""
    if failures and number == 1:
        raise failures[0]
    for failure in failures:
        session.fail(failure)
    if failures:
        raise type(failures[0])(f"{len(failures)} of {things} failed")


def _no_kustomize(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError(f"-k is not supported: `kubectl kustomize {value} | bcs apply -f -` applies the result")


def _named(document: Document, error: CliError) -> CliError:
    """The error with the file and the object of the document."""
    if isinstance(error, UsageError):  # names the file already
        return error
    message = f"{document.source}: {document.kind.lower()}/{document.name}: {error.message}"
    return type(error)(message, error.problems, reason=error.reason)


@click.command(
    epilog=examples(
        "bcs apply -f web.json --wait",
        "bcs apply -f directory/ --dry-run",
        "sed s/v1/v2/ web.yaml | bcs apply -f -",
    )
)
@file_option
@click.option("-k", "--kustomize", expose_value=False, hidden=True, callback=_no_kustomize, help="Not supported.")
@habits.without_effect("--server-side", "--force-conflicts")
@habits.answered(habits.APPLY)
@habits.answered(habits.APPLY_FLAGS, flags=True)
@validate_option
@on_conflict_option
@changing_command
def apply(session: Session, files: tuple[str, ...], dry_run: bool, wait: bool) -> None:
    """Create the objects of documents, or update and scale existing objects to match.

    Configmaps, secrets and services are applied before workloads. Documents of kind Command are executed.
    With --dry-run, several documents are planned together: later ones see the effect of earlier ones. Documents of
    kind Command are checked by themselves.
    """
    documents = documents_of(session, files)
    carry_out(
        session,
        documents,
        lambda document: operations_of(document.kind).apply(session, document, dry_run),
        wait=wait and not dry_run,
        planned=planned_together(session, documents) if dry_run else None,
    )


@click.command(
    epilog=examples("bcs update -f web-v2.json --wait", "bcs update -f web-v2.json --instances 1 --max-unavailable 1")
)
@file_option
@validate_option
@on_conflict_option
@click.option("--instances", type=click.IntRange(1), metavar="K", help="Update only K taskgroups.")
@click.option(
    "--max-unavailable",
    type=click.IntRange(1),
    metavar="K",
    help="Allow at most K taskgroups to be unavailable at the same time.",
)
@click.option("--resources-only", is_flag=True, help="Change only resource limits, without a restart of tasks.")
@changing_command
def update(
    session: Session,
    files: tuple[str, ...],
    instances: int | None,
    max_unavailable: int | None,
    resources_only: bool,
    dry_run: bool,
    wait: bool,
) -> None:
    """Replace the definitions of existing objects."""
    if resources_only and (instances is not None or max_unavailable is not None):
        raise UsageError("--resources-only cannot be combined with --instances or --max-unavailable")
    options = UpdateOptions(instances, max_unavailable, resources_only, dry_run, wait)
    documents = documents_of(session, files)
    carry_out(
        session,
        documents,
        lambda document: operations_of(document.kind).update(session, document, options),
        wait=wait and not dry_run,
    )


@click.command(epilog=examples("bcs scale web 8 --wait", "bcs scale deployment/gallery 3 --dry-run"))
@click.argument("words", nargs=-1, required=True, metavar="[KIND/]NAME... INSTANCES", shell_complete=owner_names)
@click.option("--replicas", type=click.IntRange(0), metavar="N", help="The same as INSTANCES.", hidden=True)
@on_conflict_option
@changing_command
def scale(session: Session, words: tuple[str, ...], replicas: int | None, dry_run: bool, wait: bool) -> None:
    """Change the number of taskgroups of deployments or applications to INSTANCES. 0 stops them, and keeps them."""
    names, instances = _wanted(words, replicas)
    started, failures = [], []
    for kind, name in [find_owner(session.client, session.namespace, name) for name in names]:
        how = operations_of(kind)
        try:
            if how.scale is None:
                raise UsageError(f"a {kind} cannot be scaled: its number of taskgroups follows from the agents")
            started.append((how, name, how.scale(session, session.namespace, name, instances, dry_run)))
        except Unreachable:
            raise
        except CliError as error:
            failures.append(error)
    for how, name, accepted in started if wait and not dry_run else ():
        try:
            how.wait_applied(session, session.namespace, name, accepted)
        except CliError as error:
            failures.append(error)
    _fail(session, counted(len(names), "workload"), len(names), failures)


def _wanted(words: tuple[str, ...], replicas: int | None) -> tuple[list[str], int]:
    """Names and number of taskgroups. Raises UsageError (of click)."""
    if replicas is not None:
        return several(words), replicas
    *names, number = words
    if not number.isdecimal():
        raise click.UsageError(f"give the number of taskgroups after the name: {number!r} is no number")
    return several(names), int(number)


@click.command(epilog=examples("bcs rollback web --wait", "bcs rollback deployment/gallery --to 3"))
@owner_argument
@click.option(
    "--to",
    "version",
    cls=RenamedOption,
    former=("--to-revision",),
    metavar="VERSION",
    help="Version or revision to return to. Default: the previous one.",
)
@on_conflict_option
@changing_command
def rollback(session: Session, name: str, version: str | None, dry_run: bool, wait: bool) -> None:
    """Return a deployment, daemonset or application to an earlier version.

    `bcs rollout history` lists the versions of deployments and daemonsets, `bcs get versions` those of applications.
    """
    kind, name = find_owner(session.client, session.namespace, name)
    how = operations_of(kind)
    if how.rollback is None:
        raise UsageError(f"a {kind} has no versions to return to")
    accepted = how.rollback(session, session.namespace, name, version, dry_run)
    if wait and not dry_run:
        how.wait_applied(session, session.namespace, name, accepted)


@click.command(
    epilog=examples(
        "bcs delete web --wait",
        "bcs delete deployment gallery shop",
        "bcs delete -f web.json",
        "bcs delete configmap motd",
        "bcs delete deploy,svc -l app=shop --dry-run",
    )
)
@click.argument("names", nargs=-1, metavar="[KIND] [NAME]... | KIND,… -l SELECTOR", shell_complete=deletable_names)
@files_option("Delete the objects of these documents. May be repeated.")
@click.option("-l", "--selector", "labels", default="", metavar="SELECTOR", help="Delete objects with these labels.")
@field_selector_option
@click.option("--all", "every", is_flag=True, help="Delete all objects of the kinds in the namespace.")
@click.option("--force", is_flag=True, help="Do not wait for lost agents.")
@click.option("--ignore-not-found", "ignore", is_flag=True, help="Objects that do not exist are no failure.")
@click.option("--cascade", expose_value=False, hidden=True, callback=habits.cascade, help="As kubectl.")
@habits.answered(habits.DELETE)
@habits.answered(habits.DELETE_FLAGS, flags=True)
@changing_command
def delete(
    session: Session,
    names: tuple[str, ...],
    files: tuple[str, ...],
    labels: str,
    fields: str,
    every: bool,
    force: bool,
    ignore: bool,
    dry_run: bool,
    wait: bool,
) -> None:
    """Delete objects. Deletion of a deployment, daemonset or application ends all its taskgroups.

    KIND is deployment, daemonset, application, service, configmap, secret, command, namespace, queue,
    priorityclass, webhook, kind, agent, or a registered kind. Without KIND, names are those of deployments,
    daemonsets and applications. An agent can be deleted that is not registered any more.

    With -l, --field-selector or --all, the objects of one or several kinds are named on standard error, and deleted.
    """
    if bool(names) == bool(files):
        raise UsageError("give the names of objects, or documents with -f")
    selecting = bool(labels or fields or every)
    if every and (labels or fields):
        raise UsageError("--all cannot be combined with a selector")
    if selecting and files:
        raise UsageError("selectors are for kinds, not for documents")
    if selecting:
        found = _chosen(session, names, labels, fields)
        listed = ", ".join(f"{kind.lower()}/{name}" for kind, _, name in found)
        session.err.print(f"{counted(len(found), 'object')} to delete{': ' if found else ''}{listed}")
    else:
        found = list(_named_objects(session, names, files))
    try:
        _delete(session, found, force=force, ignore=ignore, dry_run=dry_run, wait=wait)
    except NotFound:
        if len(names) == 1 and all(part.lower() in ALIASES for part in names[0].split(",")):
            raise UsageError(f"{names[0]}: give names after the kind, -l SELECTOR or --all") from None
        raise


def _delete(session: Session, found: list[Named], *, force: bool, ignore: bool, dry_run: bool, wait: bool) -> None:
    """Deletes all objects, also after one has failed, and then waits. `ignore`: those that do not exist are no failure.
    Raises errors as `carry_out` does."""
    started, failures = [], []
    for kind, namespace, name in found:
        try:
            accepted = operations_of(kind).delete(session, namespace, name, force, dry_run)
            started.append((kind, namespace, name, accepted))
        except Unreachable:
            raise
        except CliError as error:
            if not (ignore and isinstance(error, NotFound)):
                failures.append(error)
    for kind, namespace, name, accepted in started if wait and not dry_run else ():
        try:
            operations_of(kind).wait_deleted(session, namespace, name, accepted)
        except CliError as error:
            failures.append(error)
    _fail(session, counted(len(found), "object"), len(found), failures)


def _chosen(session: Session, words: tuple[str, ...], labels: str, fields: str) -> list[Named]:
    """The objects that selectors choose; an object before the objects that it refers to. Applications that belong to a
    deployment or a daemonset are left out, with a warning if that is not chosen too. Raises UsageError."""
    objects = list(chosen(session, words, labels, fields))
    owners = {(kind, name_of(kind, item)) for kind, item in objects}
    found = []
    for listed, item in objects:
        owner = owner_of_application(item) if listed == "applications" else None
        if listed == "taskgroups" and "all" in words[0].lower().split(","):
            continue
        if owner:
            if (f"{owner[0]}s", owner[1]) not in owners:
                session.warn(f"application/{item['Name']} belongs to {owner[0]}/{owner[1]}: left out")
            continue
        kind = _kind_of(session, listed)
        assert kind is not None
        found.append((kind, session.namespace, name_of(listed, item)))
    return sorted(found, key=lambda one: -APPLY_ORDER.index(one[0]) if one[0] in APPLY_ORDER else -CUSTOM)


def _named_objects(session: Session, names: tuple[str, ...], files: tuple[str, ...]) -> Iterator[Named]:
    """The objects of names or documents; an object before the objects that it refers to."""
    if files:
        documents = documents_of(session, files)
        if any(document.kind == "Command" for document in documents):
            raise UsageError("give the id of a command to delete it: bcs delete command ID")
        for document in reversed(documents):
            yield document.kind, document.namespace, document.name
        return
    if names[0].partition("/")[0].lower() in TASKGROUP_WORDS and (len(names) > 1 or "/" in names[0]):
        raise _no_deletion_of_taskgroup(names[-1].rpartition("/")[2])
    kind = _kind_of(session, names[0]) if len(names) > 1 else None
    for word in names[1:] if kind else names:
        head, slash, name = word.partition("/")
        own = _kind_of(session, head) if slash and name and not kind and head.lower() not in OWNERS else None
        if kind:
            yield kind, session.namespace, word
        elif own:
            yield own, session.namespace, name
        else:
            owner, name = find_owner(session.client, session.namespace, word)
            yield owner, session.namespace, name


def _no_deletion_of_taskgroup(name: str) -> UsageError:
    return UsageError(f"a taskgroup is not deleted by itself: {advise('replace_taskgroup', name=name)}")


def _kind_of(session: Session, word: str) -> str | None:
    """The kind of document that a word before names means; None if the word is a name itself. Raises UsageError for a
    kind whose objects are not deleted: the words must not be taken for names of applications."""
    listed = kind_of(word)
    if listed not in KINDS:
        kind = registered_kind(session, word)
        if kind is None and (instead := instead_of_kind(word)):
            raise UsageError(f"{instead}; {advise('delete_application', name=word)}")
        return kind
    if listed == "taskgroups":
        raise _no_deletion_of_taskgroup("NAME")
    if not KINDS[listed].document:
        raise UsageError(f"{listed} are not deleted by this command; {advise('delete_application', name=word)}")
    return KINDS[listed].document
