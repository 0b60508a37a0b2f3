"""The service itself: health, readiness, version, metrics, and the description of the API."""

from __future__ import annotations

import platform

import msgspec

from bcs_scheduler.api import routes
from bcs_scheduler.api.http.openapi import document
from bcs_scheduler.api.http.operation import Answer, Call, Plain, Table

table = Table("service", base="")
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """This process lives and answers (docs/original.md#health-route). `atTime` in Unix seconds."""

    run_mode: str = msgspec.field(name="runMode", default="master-slave")
    module: str = "scheduler"
    current_role: str
    healthy: bool
    message: str
    at_time: int = msgspec.field(name="atTime")


class ReadyCheck(msgspec.Struct, frozen=True, kw_only=True):
    """`code` is a stable name of the fault; empty without a fault."""

    name: str
    ok: bool
    message: str
    code: str


class Readiness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ready to serve: a leader with store and Mesos, or a standby that knows its leader. `role` and `checks` are for
    callers who may see all namespaces; the answer to others has `ready` alone."""

    ready: bool
    role: str = ""
    checks: list[ReadyCheck] = []


class VersionInfo(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    python: str
    role: str


# Health and readiness are answered in the event loop: they never wait for readers that occupy the thread pool.


@table.read("/healthz", "Check that the process is alive", answer=Health, reasons=(), enveloped=False)
async def get_health(call: Call) -> Plain:
    failing = [check for check in call.gateway.checks() if not check.ok]
    health = Health(
        current_role=call.gateway.role(),
        healthy=not failing,
        message="; ".join(
            f"{check.name}: {check.message}" if call.caller.everywhere else check.name for check in failing
        )
        or "ok",
        at_time=int(call.gateway.now()),
    )
    return Plain(msgspec.json.encode(health))


@table.read(
    "/readyz", "Check that the process is ready to serve (503 if not)", answer=Readiness, reasons=(), enveloped=False
)
async def get_readiness(call: Call) -> Plain:
    checks = [ReadyCheck(name=c.name, ok=c.ok, message=c.message, code=c.code) for c in call.gateway.checks()]
    ready = bool(checks) and all(check.ok for check in checks)
    readiness = Readiness(ready=ready)
    if call.caller.everywhere:
        readiness = Readiness(ready=ready, role=call.gateway.role(), checks=checks)
    return Plain(msgspec.json.encode(readiness), status=200 if ready else 503)


@table.read("/version", "Fetch the version of this scheduler", answer=VersionInfo, reasons=())
def get_scheduler_version(call: Call) -> Answer:
    return Answer(
        VersionInfo(version=call.settings.version, python=platform.python_version(), role=call.gateway.role())
    )


@table.read("/metrics", "Fetch metrics for Prometheus", reasons=(), enveloped=False, media_type=PROMETHEUS)
def get_metrics(call: Call) -> Plain:
    return Plain(call.gateway.metrics(), PROMETHEUS)


@table.read("/openapi.json", "Fetch the description of this API", reasons=(), enveloped=False)
def get_openapi(call: Call) -> Plain:
    return Plain(document(routes.operations(), call.settings.version))
