"""A process that leads and commits until it is killed: ``python -m tests.integration.storeprocess URL``.

It says ``elected EPOCH`` once, then ``NUMBER`` after each acknowledged commit. Commit NUMBER creates two records,
``left/NUMBER`` and ``right/NUMBER``; several commits are under way at once.
"""

from __future__ import annotations

import itertools
import queue
import sys
from collections import deque
from concurrent.futures import Future

from store.base import Change, Term
from store.factory import open_store
from store.records import Application

_UNDER_WAY = 50


def main(url: str) -> None:
    store = open_store(url, session_timeout=6.0)
    store.open()
    terms: queue.Queue[Term] = queue.Queue()
    store.campaign("http://127.0.0.1:1", terms.put, lambda reason: sys.exit(f"deposed: {reason}"))
    epoch = terms.get().epoch
    print("elected", epoch, flush=True)
    under_way: deque[tuple[int, Future[None]]] = deque()
    for number in itertools.count():
        sides = [Application(namespace=side, name=str(number)) for side in ("left", "right")]
        under_way.append((number, store.commit([Change(a.kind, a.key, a) for a in sides], epoch)))
        if len(under_way) >= _UNDER_WAY:
            first, future = under_way.popleft()
            future.result()
            print(first, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
