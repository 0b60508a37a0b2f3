"""Images: pulled before a container is made of them, made of a container, pushed."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator

from ..model import Container
from ..runtime import TaskError
from .engine import Engine, EngineError, NotFound, Stream, name_in_path
from .translate import image_of, registry_auth

STALLED = 300.0
"""Seconds without any sign of progress after which a pull or push has failed."""


class Images:
    """`cancel` makes the transfer in progress, and all that follow, fail."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cancelled = threading.Event()
        self._stream: Stream | None = None

    def cancel(self) -> None:
        self._cancelled.set()
        stream = self._stream
        if stream is not None:
            stream.close()

    def provide(self, container: Container) -> None:
        """Pulls the image of a container if its pull policy requires this. Raises TaskError."""
        reference, policy = container.image, container.pull_policy
        user, password = container.registry.user, container.registry.password
        if policy != "Always" and self._present(reference):
            return
        if policy == "Never":
            raise TaskError(f"image {reference} is not on the agent, and its pull policy is Never")
        image = image_of(reference)
        query = {"fromImage": image.repository, "tag": image.tag}
        auth = registry_auth(reference, user, password) if user else None
        try:
            self._transfer("/images/create", query, auth, STALLED)
        except EngineError as error:
            raise type(error)(f"image {reference} cannot be pulled: {error}", error.status) from None

    def commit(self, container: str, target: str, user: str, password: str, timeout: float) -> str:
        """Id of the image that was made of the container and pushed as `target`. Raises TaskError."""
        image = image_of(target)
        query = {"container": container, "repo": image.repository, "tag": image.tag}
        identity = str(self._engine.call("POST", "/commit", query, {}, timeout=timeout)["Id"])
        path = f"/images/{name_in_path(image.repository)}/push"
        try:
            self._transfer(path, {"tag": image.tag}, registry_auth(target, user, password), timeout)
        except EngineError as error:
            raise type(error)(f"image {target} was made but cannot be pushed: {error}", error.status) from None
        return identity

    def _present(self, reference: str) -> bool:
        try:
            self._engine.call("GET", f"/images/{name_in_path(reference)}/json")
        except NotFound:
            return False
        return True

    def _transfer(self, path: str, query: dict[str, str], auth: str | None, timeout: float) -> None:
        """A transfer answers 200 at once and reports its failure in the progress that follows. A push requires the
        header; a pull without credentials has none."""
        with self._engine.stream("POST", path, query, auth=auth, timeout=timeout) as stream:
            self._stream = stream
            try:
                for line in self._lines(stream, timeout):
                    _check(line)
            finally:
                self._stream = None
        if self._cancelled.is_set():
            raise EngineError("given up: the task is being stopped")

    def _lines(self, stream: Stream, timeout: float) -> Iterator[bytes]:
        if self._cancelled.is_set():
            stream.close()
        try:
            yield from stream.lines(timeout)
        except TimeoutError:
            raise EngineError(f"no progress for {timeout:.0f} s") from None
        except EngineError:
            if not self._cancelled.is_set():
                raise


def _check(line: bytes) -> None:
    """Raises EngineError if the line of progress is the report of a failure."""
    with contextlib.suppress(ValueError):
        found = json.loads(line)
        if isinstance(found, dict) and (found.get("error") or found.get("errorDetail")):
            detail = found.get("errorDetail")
            text = found.get("error") or (detail.get("message") if isinstance(detail, dict) else "")
            raise EngineError(str(text or "no reason given").strip())
