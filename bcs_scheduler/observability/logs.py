"""Structured logging: one line per decision, with ids; JSON for machines or coloured text for people.

    log = structlog.get_logger(__name__)
    log.info("taskgroup launched", taskgroup=id, agent=agent_id)

Lines of libraries that use the standard library's logging (kazoo, uvicorn) go the same way, from WARNING on.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from bcs_scheduler.settings.sections import LogSettings

PACKAGES = ("bcs_scheduler", "offers", "store", "transactions")
"""Our own packages. Only their loggers follow the level that is set."""
LIBRARIES = logging.WARNING
"""Least level of all other loggers. At lower levels, libraries write paths with queries, headers with tokens and
cookies, and the frames of sessions."""


def configure_logging(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Sets logging up for the whole process, once, at its start: a logger keeps the set-up of its first line.

    `stream` defaults to standard error.
    """
    stream = stream or sys.stderr
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    ending = _ending(settings, stream)
    structlog.configure(
        processors=[*shared, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, _logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(max(level, LIBRARIES))
    for name in PACKAGES:
        logging.getLogger(name).setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True


def _ending(settings: LogSettings, stream: TextIO) -> list[Processor]:
    if settings.format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.EventRenamer("message"), _to_json]
    return [_console(stream)]


def _console(stream: TextIO) -> Processor:
    # The default traceback prints local variables, among them secrets.
    plain = structlog.dev.plain_traceback
    return structlog.dev.ConsoleRenderer(colors=stream.isatty(), sort_keys=False, exception_formatter=plain)


def _logger_name(logger: logging.Logger, method: str, event: EventDict) -> EventDict:
    event["component"] = event["_record"].name
    return event


def _to_json(logger: Any, method: str, event: EventDict) -> str:
    """msgspec instead of the standard encoder: a line per launch must not cost more than the launch."""
    return msgspec.json.encode(event, enc_hook=str).decode()
