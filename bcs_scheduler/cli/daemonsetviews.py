"""The columns of daemonsets, and of agents in relation to one."""

from __future__ import annotations

from bcs_scheduler.cli.output import Column, age, status_text

DAEMONSETS = (
    Column("NAME", lambda d: d["name"]),
    Column("STATUS", lambda d: status_text(d["Status"])),
    Column("DESIRED", lambda d: d["counts"]["desired"], right=True),
    Column("CURRENT", lambda d: d["counts"]["current"], right=True),
    Column("READY", lambda d: d["counts"]["ready"], right=True),
    Column("UPDATED", lambda d: d["counts"]["updated"], right=True),
    Column("AVAILABLE", lambda d: d["counts"]["available"], right=True),
    Column("AGE", lambda d: age(d.get("Created")), right=True),
    Column("MISSCHEDULED", lambda d: d["counts"]["misscheduled"], wide=True, right=True),
    Column("VERSION", lambda d: d["version"], wide=True),
    Column("MESSAGE", lambda d: d.get("message")),
)
AGENTS = (
    Column("HOST", lambda a: a["hostname"]),
    Column("AGENT", lambda a: a["key"]),
    Column("WANTED", lambda a: "yes" if a["wanted"] else "no"),
    Column("STATUS", lambda a: status_text(a["status"]) if a["status"] else "-"),
    Column("READY", lambda a: "yes" if a["ready"] else "no"),
    Column("UPDATED", lambda a: "yes" if a["updated"] else "no"),
    Column("MESSAGE", lambda a: a["message"]),
)
