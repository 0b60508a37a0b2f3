"""Names of kinds, and the types of the functions that every kind has."""

from __future__ import annotations

from collections.abc import Callable

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.session import Session

ALIASES = {
    "deployment": "deployments",
    "dep": "deployments",
    "deploy": "deployments",
    "daemonset": "daemonsets",
    "ds": "daemonsets",
    "application": "applications",
    "app": "applications",
    "apps": "applications",
    "process": "applications",
    "processes": "applications",
    "taskgroup": "taskgroups",
    "tg": "taskgroups",
    "pods": "taskgroups",
    "pod": "taskgroups",
    "po": "taskgroups",
    "transaction": "transactions",
    "tx": "transactions",
    "agent": "agents",
    "ag": "agents",
    "nodes": "agents",
    "node": "agents",
    "no": "agents",
    "offer": "offers",
    "server": "servers",
    "definitions": "definition",
    "version": "versions",
    "task": "tasks",
    "configmap": "configmaps",
    "cm": "configmaps",
    "service": "services",
    "svc": "services",
    "endpoint": "endpoints",
    "ep": "endpoints",
    "namespace": "namespaces",
    "ns": "namespaces",
    "queue": "queues",
    "podgroup": "podgroups",
    "pg": "podgroups",
    "managedapplication": "managed",
    "managedapplications": "managed",
    "priorityclass": "priorityclasses",
    "pc": "priorityclasses",
    "webhook": "webhooks",
    "admissionwebhook": "webhooks",
    "admissionwebhooks": "webhooks",
    "kind": "kinds",
    "crr": "kinds",
    "secret": "secrets",
    "command": "commands",
    "cmd": "commands",
    "event": "events",
    "ev": "events",
    "message": "messages",
    "msg": "messages",
}

Found = list[Json] | Json
"""Objects of a list, or one object that was asked for by name."""
Read = Callable[[Session, str | None, str | None, str], Found]
"""Reads objects for `bcs get`: namespace (None = all), name (None = a list), label selector (empty = none)."""
Describe = Callable[[Session, str, str, str], None]
"""Prints one object for `bcs describe`: name, key of the events in data (empty = without events), json or yaml (empty =
text)."""
