"""Runs the application managers of a leader in a thread of their own.

A manager that fails or hangs at its start is named in the log; all managers are stopped and started again after a
pause. The core never waits for a manager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import structlog

from bcs_scheduler.appmanagers.bridge import CoreContext, Submit
from bcs_scheduler.appmanagers.service import ManagerService, StartFailed
from offers.policy.applications.interface import AppManager
from offers.policy.applications.lifecycle.recovery import Recovery, Step
from store import threads
from store.state.reader import StateReader

log = structlog.get_logger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until the managers are started again after a failure: doubled each time up to the longest."""
STOP_SECONDS = 3.0
"""Seconds that `stop` waits for the managers. A manager that hangs is left behind; nothing that it does reaches the
core any more."""

Observe = Callable[[str, bool], None]
"""Takes the name of a manager, and whether it runs."""


class ManagerRunner:
    """The managers of one term of leadership."""

    def __init__(
        self,
        make: Callable[[], Sequence[AppManager]],
        settings: Mapping[str, Mapping[str, object]],
        reader: StateReader,
        submit: Submit,
        now: Callable[[], float],
        observe: Observe = lambda name, runs: None,
    ) -> None:
        """`make`: the managers, new objects in each call. `settings` by name of the manager; `namespace` among them
        names the namespace of its applications, by default the name of the manager. `now`: Unix seconds."""
        self._make, self._settings, self._reader = make, settings, reader
        self._submit, self._now, self._observe = submit, now, observe
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._stopped = False
        self._thread = threads.ending("app-managers", self._run)

    def start(self) -> None:
        """Begins to start the managers, and returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stops the managers, in bounded time. May be called from any thread."""
        self._stopped = True
        loop, over = self._loop, self._over
        if loop is not None and over is not None:
            threads.harmless("app-managers", lambda: loop.call_soon_threadsafe(over.set))
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)
            if self._thread.is_alive():
                log.warning("appmanager.left_behind", seconds=STOP_SECONDS)

    def _run(self) -> None:
        asyncio.run(self._live())

    async def _live(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        pause = FIRST_PAUSE
        while not (self._stopped or self._over.is_set()):
            try:
                service = await self._begin()
            except StartFailed as failed:
                log.error("appmanager.start_failed", manager=failed.manager, error=str(failed), again_in=pause)
                self._observe(failed.manager, False)
                await self._wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            for manager in service.managers:
                self._observe(manager.name, True)
                log.info("appmanager.running", manager=manager.name)
            await self._over.wait()
            await service.stop()

    async def _begin(self) -> ManagerService:
        managers = self._make()
        contexts = {manager.name: self._context_of(manager.name) for manager in managers}
        recovery = Recovery()
        for step in Step:
            if step < Step.MANAGERS:  # the core has read the store and continued all applications before
                recovery.begin(step, self._now())
        first = next(iter(contexts.values()))
        service = ManagerService(managers, first, recovery, self._now, self._settings, contexts=contexts)
        await service.start()
        units = [unit for context in contexts.values() for unit in context.units()]
        await service.recover(units, {})
        return service

    def _context_of(self, manager: str) -> CoreContext:
        namespace = str(self._settings.get(manager, {}).get("namespace", manager))
        return CoreContext(manager, namespace, self._reader, self._submit)

    async def _wait(self, seconds: float) -> None:
        if self._over is not None:
            try:
                await asyncio.wait_for(self._over.wait(), seconds)
            except TimeoutError:
                return
