"""Results of REMOTE health checks from an outside module (docs/original.md#health-reports)."""

from __future__ import annotations

from bcs_scheduler.api.documents.commands import HealthReport, read_health_report
from bcs_scheduler.api.http.operation import Answer, Call, Table
from bcs_scheduler.core.interface.requests import ReportHealth

table = Table("health")


@table.write("POST", "/healthcheck", "Report the result of a REMOTE check of a task", body=HealthReport, status=200)
async def report_health(call: Call) -> Answer:
    report = read_health_report(call.body, call.problems)
    command = ReportHealth(task_id=report.id, type=report.type, healthy=report.status, message=report.message)
    return await call.submit(command)
