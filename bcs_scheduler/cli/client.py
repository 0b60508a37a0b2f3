"""The scheduler's HTTP API as a small typed client. Used by `bcs`, the demo and tests.

Answers are plain JSON values with the key names of the API. What is repeated when, and what fails how:
bcs_scheduler.cli.wire.
"""

from __future__ import annotations

from base64 import b64decode
from typing import NamedTuple

from bcs_scheduler.cli.daemonsetclient import Daemonsets
from bcs_scheduler.cli.deploymentclient import Deployments
from bcs_scheduler.cli.eventclient import Events
from bcs_scheduler.cli.extensionclient import Extensions
from bcs_scheduler.cli.serviceclient import Services
from bcs_scheduler.cli.wire import DEFAULT_NAMESPACE, DEFAULT_SERVER, PREFIX, Accepted, Download, Json, path_of

__all__ = ["DEFAULT_NAMESPACE", "DEFAULT_SERVER", "Accepted", "Client", "Json"]


class Piece(NamedTuple):
    """Bytes of a file from `offset` up to `next`; a `size` below the asked offset: it was rotated or cut off."""

    data: bytes
    offset: int
    next: int
    size: int


class Told(NamedTuple):
    """What executors were told: id of the command, and for each taskgroup what is known at once."""

    command: str
    messages: list[Json]


class Client(Deployments, Daemonsets, Services, Extensions, Events):
    """One server. Not for use by several threads at once."""

    # --- applications -----------------------------------------------------------------------------------------

    def applications(self, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All of a namespace, or of all namespaces with None."""
        path = "/applications" if namespace is None else path_of("namespaces", namespace, "applications")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def application(self, namespace: str, name: str) -> Json:
        return self._get(_application(namespace, name))

    def definition(self, namespace: str, name: str) -> Json:
        """The user's document of the newest version."""
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
        """`instances`: how many taskgroups to bring to the new definition (None = all); `resources_only`: change
        nothing but limits, in place."""
        query = {"instances": instances, "maxUnavailable": max_unavailable, "dryRun": dry_run}
        return self._command(
            "PUT", _collection(document), {**query, "args": "resource" if resources_only else None}, document
        )

    def rollback(self, namespace: str, name: str, version: str | None = None, *, dry_run: bool = False) -> Accepted:
        """To a stored version; None = the one before the newest."""
        query = {"version": version, "dryRun": dry_run}
        return self._command("PUT", _application(namespace, name) + "/rollback", query)

    def scale(self, namespace: str, name: str, instances: int, *, dry_run: bool = False) -> Accepted:
        return self._command("PUT", _application(namespace, name) + f"/scale/{instances}", {"dryRun": dry_run})

    def delete(self, namespace: str, name: str, *, enforce: bool = False, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", _application(namespace, name), {"enforce": enforce, "dryRun": dry_run})

    def explain(self, namespace: str, name: str) -> Json:
        return self._get(_application(namespace, name) + "/explain")

    def versions(self, namespace: str, name: str) -> list[str]:
        """Ids of the stored versions, oldest first."""
        names: list[str] = self._call("GET", PREFIX + _application(namespace, name) + "/versions")["data"]
        return names

    def version(self, namespace: str, name: str, version: str) -> Json:
        return self._get(_application(namespace, name) + path_of("versions", version))

    # --- taskgroups and transactions --------------------------------------------------------------------------

    def taskgroups(
        self, namespace: str | None, owner: str = "", *, kind: str = "application", selector: str = ""
    ) -> list[Json]:
        """Of an owner of this kind, of a namespace, or all."""
        query = {"labelSelector": selector or None}
        if namespace is not None and owner:
            return self._list(path_of("namespaces", namespace, f"{kind}s", owner, "taskgroups"), query)
        return self._list("/taskgroups", {"namespace": namespace, **query})

    def taskgroup(self, namespace: str, taskgroup: str) -> Json:
        return self._get(path_of("namespaces", namespace, "taskgroups", taskgroup))

    def reschedule(self, namespace: str, application: str, taskgroup: str, host_retain: float = 0.0) -> Accepted:
        """`host_retain`: seconds during which the replacement may only go to the same host."""
        path = _application(namespace, application) + path_of("taskgroups", taskgroup, "rescheduler")
        return self._command("PUT", path, {"hostRetainTime": host_retain or None})

    def transactions(self, namespace: str | None = None, name: str = "", *, kind: str | None = None) -> list[Json]:
        """Of the object of this name and kind (None: application), of a namespace, or all."""
        path = path_of("transactions", *([namespace] if namespace else []))
        return self._list(path, {"objName": name or None, "objKind": kind})

    def transaction(self, namespace: str, transaction: str) -> Json:
        return self._get(path_of("transactions", namespace, transaction))

    def cancel(self, namespace: str, transaction: str) -> Accepted:
        return self._command("DELETE", path_of("transactions", namespace, transaction))

    # --- configmaps, secrets, services -------------------------------------------------------------------------------

    def configurations(self, kind: str, namespace: str | None, *, selector: str = "") -> list[Json]:
        """`kind`: configmap, secret or service; of secrets there are digests instead of contents."""
        path = f"/{kind}s" if namespace is None else path_of("namespaces", namespace, f"{kind}s")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def configuration(self, kind: str, namespace: str, name: str) -> Json:
        return self._get(path_of("namespaces", namespace, f"{kind}s", name))

    def put_configuration(self, kind: str, document: Json, *, create: bool, dry_run: bool = False) -> Accepted:
        """It must not exist (`create`), or must."""
        path = path_of("namespaces", document["metadata"]["namespace"], f"{kind}s")
        return self._command("POST" if create else "PUT", path, {"dryRun": dry_run}, document)

    def delete_configuration(self, kind: str, namespace: str, name: str, *, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", path_of("namespaces", namespace, f"{kind}s", name), {"dryRun": dry_run})

    # --- messages and commands --------------------------------------------------------------------------------

    def run_command(
        self, namespace: str, name: str, document: Json, *, kind: str = "application", dry_run: bool = False
    ) -> Told:
        """`document` of kind Command, for an owner of this kind."""
        path = path_of("command", kind, namespace, name)
        return _told(self._command("POST", path, {"dryRun": dry_run}, document).data)

    def send_message(self, namespace: str, application: str, taskgroup: str, message: Json) -> Told:
        """To one taskgroup, or to all with an empty `taskgroup`."""
        where = path_of("taskgroups", taskgroup) if taskgroup else ""
        return _told(
            self._command("POST", _application(namespace, application) + where + "/message", None, message).data
        )

    def renew(self, namespace: str, application: str, taskgroup: str, how: str) -> Told:
        """`how`: restart or reload; an empty `taskgroup` means all."""
        if taskgroup:
            path = _application(namespace, application) + path_of("taskgroups", taskgroup, how)
            return _told(self._command("POST", path).data)
        kind = {"reload": 10, "restart": 11}[how]
        return _told(
            self._command("POST", path_of("apps", namespace, application, "message"), None, {"Type": kind}).data
        )

    def commit(self, taskgroup: str, image: str, target: str) -> Told:
        path = path_of("image", "commit", taskgroup)
        return _told(self._command("POST", path, {"image": image, "url": target}).data)

    def command(self, namespace: str, name: str, command: str, *, kind: str = "application") -> Json:
        """With what came of it so far."""
        return self._get(path_of("command", kind, namespace, name), {"id": command})

    def commands(self, namespace: str, name: str, *, kind: str = "application") -> list[Json]:
        return self._list(path_of("namespaces", namespace, f"{kind}s", name, "commands"))

    def forget_command(
        self, namespace: str, name: str, command: str, *, kind: str = "application", dry_run: bool = False
    ) -> Accepted:
        return self._command("DELETE", path_of("command", kind, namespace, name), {"id": command, "dryRun": dry_run})

    def messages(self, namespace: str, application: str) -> list[Json]:
        return self._list(_application(namespace, application) + "/messages")

    # --- what taskgroups write --------------------------------------------------------------------------------

    def files(self, taskgroup: str, *, task: str = "", path: str = "", executor: bool = False) -> list[Json]:
        """A folder of the sandbox, relative to the task's; with `executor` of the executor's own."""
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
        """A part of a file, from `offset` on or the last `tail` lines."""
        where = {"task": task or None, "executor": executor, "file": file, "encoding": "base64"}
        found = self._get(
            path_of("taskgroup", taskgroup, "logs"), {**where, "offset": offset, "length": length, "tail": tail}
        )
        return Piece(b64decode(found["data"]), int(found["offset"]), int(found["next"]), int(found["size"]))

    def download(self, taskgroup: str, path: str, *, task: str = "") -> Download:
        return self._download(path_of("taskgroup", taskgroup, "file"), {"task": task or None, "path": path})

    # --- the cluster ------------------------------------------------------------------------------------------

    def agents(self) -> list[Json]:
        return self._list("/agents")

    def agent_usage(self) -> list[Json]:
        """What the containers of each agent use, beside what is allocated. Takes a second or more."""
        return self._usage(path_of("usage", "agents"))

    def taskgroup_usage(self, namespace: str | None) -> list[Json]:
        """The same of the taskgroups of a namespace, or of all, that have not ended."""
        where = () if namespace is None else ("namespaces", namespace)
        return self._usage(path_of(*where, "usage", "taskgroups"))

    def _usage(self, path: str) -> list[Json]:
        found: list[Json] = self._call("GET", PREFIX + path)["data"]
        return found

    def offers(self) -> list[Json]:
        return self._list("/cluster/current/offers")

    def set_agents(self, agents: list[str], *, enabled: bool) -> list[Json]:
        """What became of each agent. Raises CliError with a problem per agent if some could not be changed."""
        path = "/agentsettings/enable" if enabled else "/agentsettings/disable"
        return list(self._command("POST", path, {"ips": ",".join(agents)}).data or ())

    def set_taints(self, taints: dict[str, dict[str, str]]) -> list[Json]:
        """All taints of each agent, by the key of its settings. What became of each."""
        body = [{"innerIP": agent, "noSchedule": given} for agent, given in taints.items()]
        return list(self._command("PUT", "/agentsettings/taint", None, body).data or ())

    def agent_settings(self) -> list[Json]:
        return self._list("/agentsettings")

    def set_settings(self, settings: list[Json], *, dry_run: bool = False) -> list[Json]:
        """A map that is given replaces what is there, but of extended resources only those that are named. What became
        of each agent."""
        return list(self._command("POST", "/agentsettings", {"dryRun": dry_run}, settings).data or ())

    def forget_settings(self, agents: list[str], *, dry_run: bool = False) -> None:
        self._command("DELETE", "/agentsettings", {"ips": ",".join(agents), "dryRun": dry_run})

    def cluster(self) -> Json:
        """What all agents together have and use."""
        return self._get("/cluster/resources")

    def schedulers(self) -> Json:
        """Addresses of the leading scheduler and of Mesos."""
        return self._get("/cluster/endpoints")

    def server_version(self) -> Json:
        return self._get("/version", prefix="")


def _collection(document: Json) -> str:
    return path_of("namespaces", document["metadata"]["namespace"], "applications")


def _application(namespace: str, name: str) -> str:
    return path_of("namespaces", namespace, "applications", name)


def _told(data: Json) -> Told:
    return Told(str(data.get("commandID") or ""), list(data.get("messages") or ()))
