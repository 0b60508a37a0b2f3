"""A request waits for its command, which another thread completes."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

from bcs_scheduler.api.http.operation import _done
from bcs_scheduler.core.interface.effects import Reply


def test_a_wait_ends_when_another_thread_completes_the_command() -> None:
    async def completed() -> bool:
        future: Future[Reply] = Future()
        thread = threading.Thread(target=lambda: future.set_result(Reply(token=1)))
        waiting = asyncio.ensure_future(_done(future, 60.0))
        await asyncio.sleep(0)
        thread.start()
        done = await waiting
        thread.join()
        return done and await _done(future, 60.0)

    assert asyncio.run(completed())
