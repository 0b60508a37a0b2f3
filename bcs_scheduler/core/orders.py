"""Commands of the API about what owns, uses or surrounds applications; those about applications are in core.events.

Each is answered by exactly one Reply, like every Command. Records in them come from documents: names, labels and
definitions are filled in, times and all that follows from the course of things are not. `create` says whether the
object must not (True) or must (False) exist; None = either.
"""

from __future__ import annotations

from typing import Literal

from bcs_scheduler.core.events import Command, Put
from store.records import CustomKind, CustomObject, Daemonset, Deployment, Namespace, Service, Version, Webhook

# --- deployments ----------------------------------------------------------------------------------------------


class CreateDeployment(Command, frozen=True, kw_only=True):
    """`version` None: adopt the one application that the selector matches."""

    deployment: Deployment
    version: Version | None = None
    type: Literal["application", "process"] = "application"


class UpdateDeployment(Command, frozen=True, kw_only=True):
    """Starts a rolling update to `version`, or with `resources_only` changes limits in place. What differs in nothing
    but strategy or the number of taskgroups starts none; labels belong to the definition of taskgroups.

    `deployment.instances` 0: the document leaves the number out, so it stays as it is when this is carried out; during
    an update it is that of the update. Only the core can tell: a scale may be on its way."""

    deployment: Deployment
    version: Version
    resources_only: bool = False


class ControlDeployment(Command, frozen=True, kw_only=True):
    """`restart` is a rolling update to the same definition."""

    namespace: str
    name: str
    action: Literal["pause", "resume", "cancel", "restart"]


class RollbackDeployment(Command, frozen=True, kw_only=True):
    """A rolling update to a kept revision; None = the one before the present one. During an update: back to where it
    began, as a cancel."""

    namespace: str
    name: str
    revision: int | None = None


class ScaleDeployment(Command, frozen=True, kw_only=True):
    namespace: str
    name: str
    instances: int


class DeleteDeployment(Command, frozen=True, kw_only=True):
    namespace: str
    name: str
    enforce: bool = False


# --- daemonsets -----------------------------------------------------------------------------------------------


class CreateDaemonset(Command, frozen=True, kw_only=True):
    daemonset: Daemonset
    version: Version


class UpdateDaemonset(Command, frozen=True, kw_only=True):
    daemonset: Daemonset
    version: Version


class RollbackDaemonset(Command, frozen=True, kw_only=True):
    """To a stored version; None = the one before the newest."""

    namespace: str
    name: str
    version: str | None = None


class RestartDaemonset(Command, frozen=True, kw_only=True):
    """Replaces its taskgroups within its bound, with the same definition."""

    namespace: str
    name: str


class DeleteDaemonset(Command, frozen=True, kw_only=True):
    namespace: str
    name: str
    enforce: bool = False


# --- services, namespaces, webhooks, custom resources ---------------------------------------------------------


class PutService(Put, frozen=True, kw_only=True):
    service: Service


class DeleteService(Command, frozen=True, kw_only=True):
    namespace: str
    name: str


class PutNamespace(Put, frozen=True, kw_only=True):
    namespace: Namespace


class DeleteNamespace(Command, frozen=True, kw_only=True):
    """Forgets its settings. Refused while anything is in it."""

    name: str


class PutWebhook(Put, frozen=True, kw_only=True):
    webhook: Webhook


class DeleteWebhook(Command, frozen=True, kw_only=True):
    namespace: str
    name: str


class PutCustomKind(Command, frozen=True, kw_only=True):
    """Registering a kind again changes nothing."""

    custom_kind: CustomKind


class DeleteCustomKind(Command, frozen=True, kw_only=True):
    """Refused while there are objects of it."""

    name: str


class PutCustomObject(Put, frozen=True, kw_only=True):
    custom_object: CustomObject


class DeleteCustomObject(Command, frozen=True, kw_only=True):
    type: str
    namespace: str
    name: str


# --- agents ---------------------------------------------------------------------------------------------------


class DrainAgent(Command, frozen=True, kw_only=True):
    """Disables the agent and moves its taskgroups elsewhere, within the bounds of their owners. `timeout`: seconds;
    0 = no end. Asked for again, it changes the bounds of the drain that runs."""

    agent: str
    at_once: int = 1
    daemonsets: bool = False
    timeout: float = 0.0
