"""A typed client of the scheduler's HTTP API, for `bcs`, the demo and tests.

Answers are plain JSON values with the key names of the API. Repetition of requests and errors:
bcs_scheduler.cli.client.transport.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bcs_scheduler.cli.client.kinds import BY_DOCUMENT, is_cluster_wide
from bcs_scheduler.cli.client.sse import Frame, read_frames
from bcs_scheduler.cli.client.transport import Transport, path_of
from bcs_scheduler.cli.client.types import PREFIX, Accepted, Download, Json, Piece, SentMessages

if TYPE_CHECKING:
    from bcs_scheduler.cli.client.session_line import SessionLine


ACTIONS = {"pause": "pauseupdate", "resume": "resumeupdate", "cancel": "cancelupdate", "restart": "restart"}
"""The routes of the actions of `control_deployment`."""
LENIENT = frozenset({"configmap", "secret", "service"})
"""Kinds whose deletion succeeds for other clients also if the object does not exist."""
LONGEST_WATCH = 30.0
"""Seconds of one long poll; less than the time limit of an answer."""
DUMPED_AT_ONCE = 1000
"""Objects of one page of a dump: a greater page would occupy the scheduler for longer at a time."""


class Client(Transport):
    """A client of one server. A client must not be used by several threads at the same time."""

    # --- applications -----------------------------------------------------------------------------------------

    def applications(self, namespace: str | None, *, selector: str = "", documents: bool = False) -> list[Json]:
        """All applications of a namespace; None = of all namespaces. `documents`: each with its document."""
        path = "/applications" if namespace is None else path_of("namespaces", namespace, "applications")
        return self._list(path, {"labelSelector": selector or None, "documents": documents or None})

    def application(self, namespace: str, name: str, *, documents: bool = False) -> Json:
        """`documents`: with its document."""
        return self._get(_application(namespace, name), {"documents": documents or None})

    def definition(self, namespace: str, name: str) -> Json:
        """The document of the newest version, as the user wrote it."""
        return self._get(path_of("definition", "application", namespace, name))

    def create(self, document: Json, *, dry_run: bool = False) -> Accepted:
        return self._command("POST", _collection(document), {"dryRun": dry_run}, document)

    def update(
        self,
        document: Json,
        *,
        instances: int | None = None,
        max_unavailable: int | None = None,
        resources_only: bool = False,
        dry_run: bool = False,
    ) -> Accepted:
        """`instances`: number of taskgroups that get the new definition (None = all). `resources_only`: change limits
        in place, and nothing else."""
        query = {"instances": instances, "maxUnavailable": max_unavailable, "dryRun": dry_run, **self._on_conflict}
        return self._command(
            "PUT", _collection(document), {**query, "args": "resource" if resources_only else None}, document
        )

    def rollback(self, namespace: str, name: str, version: str | None = None, *, dry_run: bool = False) -> Accepted:
        """`version`: a stored version; None = the version before the newest."""
        query = {"version": version, "dryRun": dry_run, **self._on_conflict}
        return self._command("PUT", _application(namespace, name) + "/rollback", query)

    def scale(self, namespace: str, name: str, instances: int, *, dry_run: bool = False) -> Accepted:
        query = {"dryRun": dry_run, **self._on_conflict}
        return self._command("PUT", _application(namespace, name) + f"/scale/{instances}", query)

    def delete(self, namespace: str, name: str, *, force: bool = False, dry_run: bool = False) -> Accepted:
        """`force`: do not wait for lost agents."""
        return self._command("DELETE", _application(namespace, name), {"enforce": force, "dryRun": dry_run})

    def explain(self, namespace: str, name: str) -> Json:
        return self._get(_application(namespace, name) + "/explain")

    def what_if(self, namespace: str, name: str, *, changes: bool = True) -> Json:
        """The smallest sets of changes that would give the open taskgroups places, and the estimate of the time until
        room is free. `changes` False: only the estimate."""
        path = _application(namespace, name) + "/whatif"
        return self._get(path) if changes else self._get(path, {"changes": "false"})

    def versions(self, namespace: str, name: str) -> list[str]:
        """Ids of the stored versions, oldest first."""
        names: list[str] = self._call("GET", PREFIX + _application(namespace, name) + "/versions")["data"]
        return names

    def version(self, namespace: str, name: str, version: str) -> Json:
        return self._get(_application(namespace, name) + path_of("versions", version))

    def plan(self, documents: list[Json]) -> Json:
        """The effect of all documents together, in their order. Nothing changes."""
        found: Json = self._command("POST", "/plans", {**self._on_conflict}, documents).data
        return found

    # --- deployments ----------------------------------------------------------------------------------------

    def deployments(self, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All deployments of a namespace; None = of all namespaces."""
        path = "/deployments" if namespace is None else path_of("namespaces", namespace, "deployments")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def deployment(self, namespace: str, name: str) -> Json:
        return self._get(_deployment(namespace, name))

    def watch_deployment(self, namespace: str, name: str, known: str, timeout: float = LONGEST_WATCH) -> Json:
        """The deployment when its `resourceVersion` is not `known` any more, at the latest after `timeout` seconds."""
        query = {"watch": True, "resourceVersion": known, "timeoutSeconds": f"{min(timeout, LONGEST_WATCH):.3f}"}
        return self._get(_deployment(namespace, name), query)

    def deployment_definition(self, namespace: str, name: str) -> Json:
        """The document as the user wrote it."""
        return self._get(path_of("definition", "deployment", namespace, name))

    def create_deployment(self, document: Json, *, dry_run: bool = False) -> Accepted:
        return self._command("POST", _collection(document, "deployments"), {"dryRun": dry_run}, document)

    def update_deployment(self, document: Json, *, resources_only: bool = False, dry_run: bool = False) -> Accepted:
        """`resources_only`: change limits in place, and nothing else."""
        query = {"args": "resource" if resources_only else None, "dryRun": dry_run, **self._on_conflict}
        return self._command("PUT", _collection(document, "deployments"), query, document)

    def scale_deployment(self, namespace: str, name: str, instances: int, *, dry_run: bool = False) -> Accepted:
        query = {"dryRun": dry_run, **self._on_conflict}
        return self._command("PUT", _deployment(namespace, name) + f"/scale/{instances}", query)

    def delete_deployment(self, namespace: str, name: str, *, force: bool = False, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", _deployment(namespace, name), {"enforce": force, "dryRun": dry_run})

    def control_deployment(self, namespace: str, name: str, action: str, *, dry_run: bool = False) -> Accepted:
        """`action`: pause, resume, cancel or restart."""
        return self._command("PUT", _deployment(namespace, name) + f"/{ACTIONS[action]}", {"dryRun": dry_run})

    def rollback_deployment(
        self, namespace: str, name: str, revision: int | None = None, *, dry_run: bool = False
    ) -> Accepted:
        """`revision`: a stored revision; None = the revision before the current one."""
        query = {"revision": revision, "dryRun": dry_run, **self._on_conflict}
        return self._command("PUT", _deployment(namespace, name) + "/rollback", query)

    def revisions(self, namespace: str, name: str) -> list[Json]:
        """Stored revisions, oldest first."""
        return self._list(_deployment(namespace, name) + "/revisions")

    def revision(self, namespace: str, name: str, number: int) -> Json:
        return self._get(_deployment(namespace, name) + f"/revisions/{number}")

    # --- daemonsets and drains ------------------------------------------------------------------------------

    def daemonsets(self, namespace: str | None, *, selector: str = "", documents: bool = False) -> list[Json]:
        """All daemonsets of a namespace; None = of all namespaces. `documents`: each with its document."""
        path = "/daemonsets" if namespace is None else path_of("namespaces", namespace, "daemonsets")
        return self._list(path, {"labelSelector": selector or None, "documents": documents or None})

    def daemonset(self, namespace: str, name: str, *, documents: bool = False) -> Json:
        """`documents`: with its document."""
        return self._get(_daemonset(namespace, name), {"documents": documents or None})

    def daemonset_definition(self, namespace: str, name: str) -> Json:
        """The document as the user wrote it."""
        return self._get(path_of("definition", "daemonset", namespace, name))

    def agents_of_daemonset(self, namespace: str, name: str) -> list[Json]:
        """State of the daemonset on every agent."""
        return self._list(_daemonset(namespace, name) + "/agents")

    def explain_daemonset(self, namespace: str, name: str) -> Json:
        return self._get(_daemonset(namespace, name) + "/explain")

    def create_daemonset(self, document: Json, *, dry_run: bool = False) -> Accepted:
        return self._command("POST", _collection(document, "daemonsets"), {"dryRun": dry_run}, document)

    def update_daemonset(self, document: Json, *, dry_run: bool = False) -> Accepted:
        return self._command(
            "PUT", _collection(document, "daemonsets"), {"dryRun": dry_run, **self._on_conflict}, document
        )

    def delete_daemonset(self, namespace: str, name: str, *, force: bool = False, dry_run: bool = False) -> Accepted:
        return self._delete(_daemonset(namespace, name), {"enforce": force, "dryRun": dry_run})

    def restart_daemonset(self, namespace: str, name: str, *, dry_run: bool = False) -> Accepted:
        return self._command("PUT", _daemonset(namespace, name) + "/restart", {"dryRun": dry_run})

    def rollback_daemonset(
        self, namespace: str, name: str, version: str | None = None, *, dry_run: bool = False
    ) -> Accepted:
        """`version`: a stored version; None = the version before the newest."""
        query = {"version": version, "dryRun": dry_run, **self._on_conflict}
        return self._command("PUT", _daemonset(namespace, name) + "/rollback", query)

    def drain(
        self, agents: list[str], *, parallel: int, timeout: float, daemonsets: bool, dry_run: bool = False
    ) -> list[Json]:
        """Starts drains; returns the results by agent. `parallel`: taskgroups of one agent that are moved at the same
        time. `timeout`: seconds; 0 = no limit. Raises CliError with one problem for each agent that cannot be drained.
        """
        query = {"ips": ",".join(agents), "atOnce": parallel, "daemonsets": daemonsets, "dryRun": dry_run}
        return list(self._command("POST", "/agentsettings/drain", {**query, "timeoutSeconds": timeout or None}).data)

    def drains(self, agents: list[str] | None = None) -> list[Json]:
        """Drains of these agents; None = of all agents with a drain, also an ended one."""
        return self._list("/agentsettings/drain", {"ips": ",".join(agents)} if agents else {})

    # --- taskgroups and transactions --------------------------------------------------------------------------

    def taskgroups(
        self, namespace: str | None, owner: str = "", *, kind: str = "application", selector: str = ""
    ) -> list[Json]:
        """Taskgroups of one owner of `kind`, of a namespace, or of all namespaces (None)."""
        query = {"labelSelector": selector or None}
        if namespace is not None and owner:
            return self._list(path_of("namespaces", namespace, f"{kind}s", owner, "taskgroups"), query)
        return self._list("/taskgroups", {"namespace": namespace, **query})

    def taskgroup(self, namespace: str, taskgroup: str) -> Json:
        return self._get(path_of("namespaces", namespace, "taskgroups", taskgroup))

    def reschedule(self, namespace: str, application: str, taskgroup: str, host_retain: float = 0.0) -> Accepted:
        """`host_retain`: seconds during which only the same host is used for the replacement."""
        path = _application(namespace, application) + path_of("taskgroups", taskgroup, "rescheduler")
        return self._command("PUT", path, {"hostRetainTime": host_retain or None})

    def transactions(self, namespace: str | None = None, name: str = "", *, kind: str | None = None) -> list[Json]:
        """Transactions of one object (`kind` None = application), of a namespace, or of all namespaces."""
        path = path_of("transactions", *([namespace] if namespace else []))
        return self._list(path, {"objName": name or None, "objKind": kind})

    def transaction(self, namespace: str, transaction: str) -> Json:
        return self._get(path_of("transactions", namespace, transaction))

    def cancel(self, namespace: str, transaction: str) -> Accepted:
        return self._delete(path_of("transactions", namespace, transaction))

    # --- objects of the kinds with common routes ---------------------------------------------------------------

    # `namespace` counts for the kinds that have one.

    def objects(self, kind: str, namespace: str | None = None, *, selector: str = "") -> list[Json]:
        """All objects of a namespace; None = of all namespaces. Secrets have digests instead of contents."""
        return self._list(_objects(kind, namespace), {"labelSelector": selector} if selector else {})

    def object(self, kind: str, namespace: str, name: str) -> Json:
        return self._get(_objects(kind, namespace) + path_of(name))

    def put_object(self, kind: str, document: Json, *, create: bool, dry_run: bool = False) -> Accepted:
        """Creates an object (`create`), or replaces an existing one."""
        path = _objects(kind, document["metadata"].get("namespace"))
        return self._command("POST" if create else "PUT", path, {"dryRun": dry_run}, document)

    def delete_object(self, kind: str, namespace: str, name: str, *, dry_run: bool = False) -> Accepted:
        path, query = _objects(kind, namespace) + path_of(name), {"dryRun": dry_run}
        return self._delete(path, query) if kind in LENIENT else self._command("DELETE", path, query)

    # --- endpoints of services ------------------------------------------------------------------------------

    def endpoints(self, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All endpoints of a namespace; None = of all namespaces."""
        path = "/endpoints" if namespace is None else path_of("namespaces", namespace, "endpoints")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def endpoint(self, namespace: str, name: str) -> Json:
        return self._get(path_of("namespaces", namespace, "endpoints", name))

    def watch_endpoint(self, namespace: str, name: str, known: str) -> Json:
        """The endpoint when its `resourceVersion` is not `known` any more, or after LONGEST_WATCH seconds."""
        query = {"watch": True, "resourceVersion": known or None, "timeoutSeconds": f"{LONGEST_WATCH:g}"}
        return self._get(path_of("namespaces", namespace, "endpoints", name), query)

    def follow_endpoints(self, namespace: str, name: str | None = None) -> Iterator[Frame]:
        """A stream with the events `endpoint`, `deleted`, `synced`, `end`, and heartbeats with an empty event. The
        server ends the stream. Raises CliError when the connection breaks."""
        path = path_of("namespaces", namespace, "endpoints", "watch")
        return read_frames(self._answered("GET", PREFIX + path, {"name": name}, stream=True))

    # --- events, and lists as streams -----------------------------------------------------------------------

    # Filters are the parameters of the API (docs/api.md, Events). None and empty values are not sent.

    def events(self, namespace: str | None, filters: Mapping[str, Any]) -> list[Json]:
        """Events of a namespace, newest last; None = of all namespaces."""
        return self._list(_events(namespace), _given(filters))

    def follow_events(self, namespace: str | None, filters: Mapping[str, Any], known: str = "") -> Iterator[Frame]:
        """A stream with the events `event`, `gap`, `end`; frames without an event carry only the position in the
        stream.

        The stream begins after the event with the id `known`, or with the newest events (filter `last`). Raises
        CliError when the connection breaks.
        """
        query = {**_given(filters), "lastEventId": known or None}
        return read_frames(self._answered("GET", f"{PREFIX}{_events(namespace)}/watch", query, stream=True))

    def follow_list(self, kind: str, namespace: str | None, selector: str = "", known: str = "") -> Iterator[Frame]:
        """A list of `bcs get` as a stream (docs/api.md, Lists as streams), after the frame with the id `known`. Raises
        CliError when the connection breaks."""
        if kind in ("agents", "queues") or namespace is None:
            path = f"/{kind}"
        else:
            path = path_of(
                *(("transactions", namespace) if kind == "transactions" else ("namespaces", namespace, kind))
            )
        query = {**_given({"labelSelector": selector}), "watch": "true", "lastEventId": known or None}
        return read_frames(self._answered("GET", PREFIX + path, query, stream=True))

    # --- messages and commands --------------------------------------------------------------------------------

    def run_command(
        self, namespace: str, name: str, document: Json, *, kind: str = "application", dry_run: bool = False
    ) -> SentMessages:
        """`document`: of kind Command. `kind`: of the workload that it runs in."""
        path = path_of("command", kind, namespace, name)
        return _messages_of(self._command("POST", path, {"dryRun": dry_run}, document).data)

    def send_message(self, namespace: str, application: str, taskgroup: str, message: Json) -> SentMessages:
        """Sends a message to one taskgroup; an empty `taskgroup` means all of the application."""
        where = path_of("taskgroups", taskgroup) if taskgroup else ""
        return _messages_of(
            self._command("POST", _application(namespace, application) + where + "/message", None, message).data
        )

    def renew(self, namespace: str, application: str, taskgroup: str, how: str) -> SentMessages:
        """`how`: restart or reload; an empty `taskgroup` means all."""
        if taskgroup:
            path = _application(namespace, application) + path_of("taskgroups", taskgroup, how)
            return _messages_of(self._command("POST", path).data)
        kind = {"reload": 10, "restart": 11}[how]
        return _messages_of(
            self._command("POST", path_of("apps", namespace, application, "message"), None, {"Type": kind}).data
        )

    def commit(self, taskgroup: str, image: str, target: str) -> SentMessages:
        path = path_of("image", "commit", taskgroup)
        return _messages_of(self._command("POST", path, {"image": image, "url": target}).data)

    def command(self, namespace: str, name: str, command: str, *, kind: str = "application") -> Json:
        """A command with its results so far."""
        return self._get(path_of("command", kind, namespace, name), {"id": command})

    def commands(self, namespace: str, name: str, *, kind: str = "application") -> list[Json]:
        return self._list(path_of("namespaces", namespace, f"{kind}s", name, "commands"))

    def forget_command(
        self, namespace: str, name: str, command: str, *, kind: str = "application", dry_run: bool = False
    ) -> Accepted:
        return self._delete(path_of("command", kind, namespace, name), {"id": command, "dryRun": dry_run})

    def messages(self, namespace: str, application: str) -> list[Json]:
        return self._list(_application(namespace, application) + "/messages")

    # --- files of taskgroups --------------------------------------------------------------------------------

    def files(self, taskgroup: str, *, task: str = "", path: str = "", executor: bool = False) -> list[Json]:
        """Files in a directory of the sandbox. `path` is relative to the directory of the task, or of the executor."""
        query = {"task": task or None, "path": path or None, "executor": executor}
        found: list[Json] = self._call("GET", PREFIX + path_of("taskgroup", taskgroup, "files"), query)["data"]
        return found

    def log(
        self,
        taskgroup: str,
        file: str,
        *,
        task: str = "",
        executor: bool = False,
        offset: int | None = None,
        length: int | None = None,
        tail: int | None = None,
    ) -> Piece:
        """A part of a file: from `offset` (bytes), or the last `tail` lines."""
        where = {"task": task or None, "executor": executor, "file": file, "encoding": "base64"}
        found = self._get(
            path_of("taskgroup", taskgroup, "logs"), {**where, "offset": offset, "length": length, "tail": tail}
        )
        return Piece(b64decode(found["data"]), int(found["offset"]), int(found["next"]), int(found["size"]))

    def output(self, taskgroup: str, query: Json) -> Json:
        """A part of the output of a task, both streams in order, with contents in base64."""
        found: Json = self._get(path_of("taskgroup", taskgroup, "output"), {**query, "encoding": "base64"})
        return found

    def outputs(
        self, namespace: str, *, application: str = "", deployment: str = "", taskgroup: str = ""
    ) -> list[Json]:
        """The last outputs that are kept of failed tasks, newest first."""
        query = {"application": application or None, "deployment": deployment or None, "taskgroup": taskgroup or None}
        found: list[Json] = self._call("GET", PREFIX + path_of("namespaces", namespace, "outputs"), query)["data"]
        return found

    def kept_output(self, namespace: str, output: str, query: Json) -> Json:
        """The last output of a failed task, with contents in base64."""
        found: Json = self._get(path_of("namespaces", namespace, "outputs", output), {**query, "encoding": "base64"})
        return found

    def download(self, taskgroup: str, path: str, *, task: str = "") -> Download:
        return self._download(path_of("taskgroup", taskgroup, "file"), {"task": task or None, "path": path})

    def session(self, taskgroup: str, kind: str, document: Json, *, task: str = "") -> SessionLine:
        """`kind`: exec, attach, portforward or copy. Raises NoSessions for servers that do not know sessions."""
        return self._session_line(path_of("taskgroup", taskgroup, kind), {"task": task} if task else {}, document)

    # --- admission webhooks -----------------------------------------------------------------------------------

    def webhooks(self, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All objects of a namespace; None = of all namespaces."""
        path = "/admissionwebhooks" if namespace is None else path_of("namespaces", namespace, "admissionwebhook")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def webhook(self, namespace: str, name: str) -> Json:
        return self._get(path_of("admissionwebhook", namespace, name))

    def put_webhook(self, document: Json, *, create: bool, dry_run: bool = False) -> Accepted:
        return self._command("POST" if create else "PUT", "/admissionwebhook", {"dryRun": dry_run}, document)

    def delete_webhook(self, namespace: str, name: str, *, dry_run: bool = False) -> Accepted:
        return self._delete(path_of("admissionwebhook", namespace, name), {"dryRun": dry_run})

    # --- custom resources -------------------------------------------------------------------------------------

    def kinds(self) -> list[Json]:
        """Registered kinds of custom resources."""
        return self._list("/crr")

    def kind(self, name: str) -> Json:
        return self._get(path_of("crr", name))

    def register_kind(self, document: Json, *, dry_run: bool = False) -> Accepted:
        return self._command("POST", "/crr/register", {"dryRun": dry_run}, document)

    def delete_kind(self, name: str, *, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", path_of("crr", name), {"dryRun": dry_run})

    def customs(self, kind: str, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All objects of a namespace; None = of all namespaces."""
        path = path_of("crd", kind) if namespace is None else path_of("crd", "namespaces", namespace, kind)
        return self._list(path, {"labelSelector": selector} if selector else {})

    def custom(self, kind: str, namespace: str, name: str) -> Json:
        return self._get(path_of("crd", "namespaces", namespace, kind, name))

    def put_custom(self, document: Json, *, dry_run: bool = False) -> Accepted:
        path = path_of("crd", "namespaces", document["metadata"]["namespace"], document["kind"])
        return self._command("PUT", path, {"dryRun": dry_run}, document)

    def delete_custom(self, kind: str, namespace: str, name: str, *, dry_run: bool = False) -> Accepted:
        return self._delete(path_of("crd", "namespaces", namespace, kind, name), {"dryRun": dry_run})

    # --- trees of queues (policy `hierarchical`) ------------------------------------------------------------

    # `partition`: name of the partition of roles; empty = the only one with a tree, or `default`.

    def partitions(self) -> list[Json]:
        """The partitions of roles with their policies."""
        return self._list(path_of("queuetree", "partitions"))

    def queue_tree(self, partition: str = "") -> Json:
        """The tree that counts. Raises NotFound with another policy."""
        return self._get(path_of("queuetree"), _of_partition(partition))

    def put_queue_tree(
        self, document: Json, *, expected: int | None = None, dry_run: bool = False, partition: str = ""
    ) -> Accepted:
        """Makes a document the next revision. `expected`: number of the revision that must count; None = any."""
        query = {**_of_partition(partition), "expected": expected, "dryRun": dry_run}
        return self._command("PUT", path_of("queuetree"), query, document)

    def roll_back_queue_tree(
        self, revision: int | None = None, *, expected: int | None = None, dry_run: bool = False, partition: str = ""
    ) -> Accepted:
        """Makes the document of a kept revision the next one; None = the revision before the present one."""
        query = {**_of_partition(partition), "revision": revision, "expected": expected, "dryRun": dry_run}
        return self._command("POST", path_of("queuetree", "rollback"), query)

    def tree_revisions(self, partition: str = "") -> list[Json]:
        """Kept revisions without documents, the newest first."""
        return self._list(path_of("queuetree", "revisions"), _of_partition(partition))

    def tree_revision(self, revision: int, partition: str = "") -> Json:
        return self._get(path_of("queuetree", "revisions", str(revision)), _of_partition(partition))

    def tree_queues(self, partition: str = "") -> list[Json]:
        """All queues with amounts and use, parents first; without `partition`, those of all trees. Raises NotFound with
        another policy."""
        return self._list(path_of("queuetree", "queues"), _of_partition(partition))

    def tree_queue(self, name: str, partition: str = "") -> Json:
        return self._get(path_of("queuetree", "queues", name), _of_partition(partition))

    def set_tree_queue(self, name: str, action: str, *, dry_run: bool = False, partition: str = "") -> Accepted:
        """`action`: stop, drain or start."""
        query = {**_of_partition(partition), "dryRun": dry_run}
        return self._command("POST", path_of("queuetree", "queues", name, action), query)

    # --- managed applications -------------------------------------------------------------------------------

    def managed_applications(self, namespace: str | None) -> list[Json]:
        """All managed applications of a namespace; None = of all namespaces."""
        plural = "managedapplications"
        return self._list(f"/{plural}" if namespace is None else path_of("namespaces", namespace, plural))

    def managed_application(self, namespace: str, name: str) -> Json:
        """One with its tasks, placeholders, orphans and histories."""
        return self._get(path_of("namespaces", namespace, "managedapplications", name))

    # --- the cluster ------------------------------------------------------------------------------------------

    def agents(self) -> list[Json]:
        return self._list("/agents")

    def agent_usage(self) -> list[Json]:
        """Used and allocated resources of each agent. The measurement takes a second or more."""
        return self._usage(path_of("usage", "agents"))

    def taskgroup_usage(self, namespace: str | None) -> list[Json]:
        """Used and allocated resources of each taskgroup that has not ended; None = of all namespaces."""
        where = () if namespace is None else ("namespaces", namespace)
        return self._usage(path_of(*where, "usage", "taskgroups"))

    def queue_usage(self) -> list[Json]:
        """Used amounts, deserved shares and waiting taskgroups of each queue."""
        return self._usage(path_of("usage", "queues"))

    def _usage(self, path: str) -> list[Json]:
        found: list[Json] = self._call("GET", PREFIX + path)["data"]
        return found

    def offers(self) -> list[Json]:
        return self._list("/cluster/current/offers")

    def set_agents(self, agents: list[str], *, enabled: bool, force: bool = False, dry_run: bool = False) -> list[Json]:
        """Results by agent, with the plan of a dry run. `force`: also for agents that are not known. Raises
        CliError with one problem for each agent that could not be changed."""
        path = "/agentsettings/enable" if enabled else "/agentsettings/disable"
        query: Json = {"ips": ",".join(agents), "force": force or None, "dryRun": dry_run or None}
        return list(self._command("POST", path, query).data or ())

    def resume_replacements(self) -> int:
        """Ends the halt after a large loss. Returns the number of taskgroups that wait for a replacement."""
        return int(self._command("POST", "/cluster/resume").data["taskgroups"])

    def unknown_tasks(self) -> Json:
        """The running taskgroups that the store of the server does not know, and whether they halt it."""
        return self._get("/cluster/unknowntasks")

    def decide_unknown_tasks(
        self, decision: str, applications: tuple[str, ...], *, adopted: bool = False, dry_run: bool = False
    ) -> Json:
        """`decision`: adopt or end. `applications`: keys; empty = all. `adopted`: also taskgroups that were adopted
        before, only to end them. Returns the number of taskgroups, and whether the halt continues."""
        query: Json = {"applications": ",".join(applications) or None, "dryRun": dry_run or None}
        query |= {"adopted": True} if adopted else {}
        return dict(self._command("POST", f"/cluster/unknowntasks/{decision}", query).data)

    def rebalance(self, *, goal: str, moves: int, gain: float, dry_run: bool) -> Json:
        """Moves taskgroups to fewer (`goal` pack) or more even agents (spread). `moves`: their maximum number. `gain`:
        least gain of a move. Returns the moves."""
        query: Json = {"goal": goal, "moves": moves, "gain": gain, "dryRun": dry_run}
        return dict(self._command("POST", "/cluster/rebalance", query).data)

    def set_taints(
        self, taints: dict[str, dict[str, str]], *, force: bool = False, dry_run: bool = False
    ) -> list[Json]:
        """Replaces all taints of agents, by the key of their settings. `force`: also of agents that are not known.
        Returns the results by agent."""
        body = [{"innerIP": agent, "noSchedule": given} for agent, given in taints.items()]
        query: Json = {"force": force or None, "dryRun": dry_run or None}
        return list(self._command("PUT", "/agentsettings/taint", query, body).data or ())

    def agent_settings(self) -> list[Json]:
        return self._list("/agentsettings")

    def set_settings(self, settings: list[Json], *, force: bool = False, dry_run: bool = False) -> list[Json]:
        """Replaces the given maps; of extended resources only the named ones. `force`: also for agents that are not
        known. Returns the results by agent."""
        query: Json = {"force": force or None, "dryRun": dry_run or None}
        return list(self._command("POST", "/agentsettings", query, settings).data or ())

    def forget_settings(self, agents: list[str], *, dry_run: bool = False) -> None:
        self._command("DELETE", "/agentsettings", {"ips": ",".join(agents), "dryRun": dry_run})

    def cluster(self) -> Json:
        """Total and used resources of all agents."""
        return self._get("/cluster/resources")

    def schedulers(self) -> Json:
        """Addresses of the leader and of the Mesos master."""
        return self._get("/cluster/endpoints")

    def server_version(self) -> Json:
        return self._get("/version", prefix="")

    # --- dumps ----------------------------------------------------------------------------------------------

    def dumped(self, path: str) -> Iterator[Json]:
        """The objects of a list over all namespaces, page by page as they are used."""
        return self._pages(path, {"limit": DUMPED_AT_ONCE})

    def halt(self) -> Json:
        """The large loss that stops replacements, if there is one."""
        return self._get("/cluster/halt")


def _collection(document: Json, kind: str = "applications") -> str:
    return path_of("namespaces", document["metadata"]["namespace"], kind)


def _objects(kind: str, namespace: str | None) -> str:
    name = BY_DOCUMENT[kind]
    return path_of(name) if namespace is None or is_cluster_wide(name) else path_of("namespaces", namespace, name)


def _application(namespace: str, name: str) -> str:
    return path_of("namespaces", namespace, "applications", name)


def _messages_of(data: Json) -> SentMessages:
    return SentMessages(str(data.get("commandID") or ""), list(data.get("messages") or ()))


def _deployment(namespace: str, name: str) -> str:
    return path_of("namespaces", namespace, "deployments", name)


def _daemonset(namespace: str, name: str) -> str:
    return path_of("namespaces", namespace, "daemonsets", name)


def _events(namespace: str | None) -> str:
    return "/events" if namespace is None else path_of("namespaces", namespace, "events")


def _given(filters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in filters.items() if value not in (None, "")}


def _of_partition(partition: str) -> dict[str, str | None]:
    return {"partition": partition or None}
