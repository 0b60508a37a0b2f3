"""Admission: webhooks are asked about a document before it is taken (docs/original.md#webhooks).

Mutating webhooks are asked first, so that validating webhooks see the document that would be taken. Within both groups,
configurations are asked in the order of namespace and name, the webhooks of each in the order of its list. Each webhook
receives the document with the changes of the webhooks before. The route reads and validates the result exactly as if
the user had sent it. This happens in the API's event loop; the core never waits for a webhook.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

import msgspec
import structlog

from bcs_scheduler.api.http import body, errors
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.api.http.operation import ApiSettings, Call, Operation
from bcs_scheduler.api.objects.webhooks import TARGETS
from bcs_scheduler.core.interface.effects import Problem, Reason
from bcs_scheduler.leadership.gateway import Busy
from bcs_scheduler.net.addresses import without_path
from bcs_scheduler.net.http_post import Answer, PostFailed, post
from store.ids import object_key, part_key
from store.records import Hook, Webhook
from store.state.reader import StateReader
from transactions.text import duration

log = structlog.get_logger(__name__)
OPERATIONS = {"POST": "Create", "PUT": "Update"}
MESSAGE_LENGTH = 1000
"""Characters of a webhook's own words that are passed on."""

Outcome = Literal["unchanged", "changed", "allowed", "refused", "failed"]
Asked = Callable[[str, Outcome, float], None]
"""Reported for every call: webhook as namespace/configuration/name, outcome, seconds."""


class Identity(NamedTuple):
    """The kind, namespace and name of a document. No webhook may change them."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {object_key(self.namespace, self.name)}"


class Admitted(NamedTuple):
    """The document to be taken, and the webhooks that changed it."""

    document: Any
    changed_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Admission:
    """`local`: webhooks may be at loopback and link-local addresses. `total`: seconds for all webhooks of one request.
    `limit`: bytes of one answer."""

    local: bool = False
    total: float = 30.0
    limit: int = ApiSettings().max_body
    asked: Asked = field(default=lambda webhook, outcome, seconds: None)

    async def admit(self, operation: Operation, call: Call) -> Admitted:
        """Returns the document that replaces the body of the call. Raises ApiError (admission)."""
        document = call.body
        kinds = kinds_of(operation)
        if not kinds:
            return Admitted(document)
        identity = identify(document, call.path.get("ns", ""))
        if identity is None or identity.kind not in kinds:
            return Admitted(document)  # the route refuses the document with the reason
        wanted = OPERATIONS[operation.method]
        hooks = matching(_everything(call), wanted, identity)
        if not hooks:
            return Admitted(document)
        headers = {"X-Request-Id": call.cause, "X-Bcs-Operation": wanted}
        if call.dry_run:
            headers["X-Bcs-Dry-Run"] = "true"
        return await self._ask_all(hooks, identity, document, headers)

    async def _ask_all(
        self, hooks: list[tuple[Webhook, Hook]], identity: Identity, document: Any, headers: dict[str, str]
    ) -> Admitted:
        deadline = time.monotonic() + self.total
        current, changed_by = _filled(document, identity), []
        for webhook, hook in hooks:
            name = part_key(webhook.key, hook.name)
            patience = min(hook.timeout, deadline - time.monotonic())
            started = time.monotonic()
            outcome: Outcome = "failed"
            try:
                if patience <= 0:
                    raise PostFailed(
                        f"not called: the webhooks of this request have already taken {duration(self.total)}"
                    )
                sent = msgspec.json.encode(current)
                answer = await self._post(hook, sent, headers, patience)
                refusal = _refusal(webhook, answer)
                if refusal is not None:
                    outcome = "refused"
                    raise _refused(name, identity, refusal)
                changed = await _read(webhook, answer, identity)
                outcome = "unchanged" if webhook.mutating else "allowed"
                if changed is not None and changed != current:
                    current, outcome = changed, "changed"
                    changed_by.append(name)
            except PostFailed as failure:
                log.warning(
                    "webhook failed",
                    webhook=name,
                    url=without_path(hook.url),
                    object=str(identity),
                    reason=str(failure),
                )
                if hook.fail:
                    raise _unanswered(name, identity, failure) from failure
            finally:
                self.asked(name, outcome, time.monotonic() - started)
        return Admitted(current if changed_by else document, tuple(changed_by))

    async def _post(self, hook: Hook, document: bytes, headers: dict[str, str], patience: float) -> Answer:
        return await post(hook.url, document, headers, timeout=patience, ca=hook.ca, local=self.local, limit=self.limit)


def _everything(call: Call) -> StateReader:
    """The whole state: webhooks are asked whether or not the caller may see them."""
    try:
        return call.gateway.state()
    except Busy as busy:
        raise ApiError(Reason.UNAVAILABLE, str(busy)) from busy


def with_webhooks_named(error: ApiError, admitted: Admitted) -> ApiError:
    """Returns the error with the names of the webhooks that have changed the document, if the document is invalid after
    their changes."""
    if not admitted.changed_by or error.reason != Reason.INVALID:
        return error
    words = f"{error.message} (after changes by admission webhook {', '.join(admitted.changed_by)})"
    return ApiError(error.reason, words, error.problems, headers=error.headers, extra=error.extra)


@lru_cache(maxsize=1024)
def kinds_of(operation: Operation) -> tuple[str, ...]:
    """Kinds of documents that the operation accepts and that webhooks may judge. The type of the body determines the
    kinds, so that a new route cannot forget them."""
    if operation.method not in OPERATIONS or not isinstance(operation.body, type):
        return ()
    if not issubclass(operation.body, msgspec.Struct) or "metadata" not in operation.body.__struct_fields__:
        return ()
    kinds = get_args(get_type_hints(operation.body).get("kind"))
    return tuple(kind for kind in kinds if kind in TARGETS)


def identify(document: Any, namespace: str) -> Identity | None:
    """Identity in the form that the routes will read: keys in any case, the namespace of the path if the document names
    none. None: the document has no complete identity, so no route accepts it."""
    metadata = _member(document, "metadata")
    kind, name = _member(document, "kind"), _member(metadata, "name")
    own = _member(metadata, "namespace") or namespace
    if not (isinstance(kind, str) and kind and isinstance(name, str) and name and isinstance(own, str) and own):
        return None
    return Identity(kind, own, name)


def matching(state: StateReader, operation: str, identity: Identity) -> list[tuple[Webhook, Hook]]:
    """The webhooks to ask, in order."""
    webhooks = [w for w in list(state.webhooks.values()) if (w.operation, w.target) == (operation, identity.kind)]
    return [
        (webhook, hook)
        for webhook in sorted(webhooks, key=lambda w: (not w.mutating, w.namespace, w.name))
        for hook in webhook.hooks
        if not hook.namespaces or (identity.namespace in hook.namespaces) is not hook.excluded
    ]


def _member(value: Any, key: str) -> Any:
    """The one key that is equal but for case; of several the routes take none."""
    if not isinstance(value, dict):
        return None
    found = [inner for name, inner in value.items() if name.lower() == key]
    return found[0] if len(found) == 1 else None


def _filled(document: Any, identity: Identity) -> Any:
    """Returns the document with its namespace, because webhooks need the namespace."""
    metadata_key = next(key for key in document if key.lower() == "metadata")
    metadata = document[metadata_key]
    if _member(metadata, "namespace"):
        return document
    rest = {key: value for key, value in metadata.items() if key.lower() != "namespace"}
    return {**document, metadata_key: {**rest, "namespace": identity.namespace}}


def _refusal(webhook: Webhook, answer: Answer) -> str | None:
    """The words of a validating webhook that refuses, None if it does not."""
    if webhook.mutating or not 400 <= answer.status < 500:
        return None
    return _words(answer.body) or f"HTTP {answer.status}"


async def _read(webhook: Webhook, answer: Answer, identity: Identity) -> Any:
    """Reads the changed document from the answer; None = the document is unchanged. Raises PostFailed."""
    if 300 <= answer.status < 400:
        raise PostFailed(f"HTTP {answer.status}: redirects are not followed")
    if answer.status not in (200, 204):
        raise PostFailed(f"HTTP {answer.status}")
    if not webhook.mutating or answer.status == 204 or not answer.body.strip():
        return None
    try:
        changed = await asyncio.to_thread(body.parse, answer.body, "the answer")
    except ApiError as error:
        raise PostFailed(error.message) from None
    if changed is None:
        return None
    if not isinstance(changed, dict):
        raise PostFailed("the answer is not a document")
    now = identify(changed, identity.namespace)
    if now != identity:
        raise PostFailed(f"the answer is {now or 'a document without an identity'}, not {identity}")
    return changed


def _words(content: bytes) -> str:
    """The message of a webhook to the user: `message` of a JSON object, or the text itself."""
    text = content[: 4 * MESSAGE_LENGTH].decode("utf-8", "replace")
    try:
        said = msgspec.json.decode(content)
        text = said["message"] if isinstance(said, dict) and isinstance(said.get("message"), str) else text
    except (msgspec.DecodeError, RecursionError):
        pass
    return "".join(c if c.isprintable() else " " for c in text).strip()[:MESSAGE_LENGTH]


def _refused(name: str, identity: Identity, words: str) -> ApiError:
    message = f"admission webhook {name} refuses {identity}: {words}"
    return ApiError(errors.ADMISSION, message, (Problem("$", words),))


def _unanswered(name: str, identity: Identity, failure: PostFailed) -> ApiError:
    message = f"admission webhook {name} is required for {identity} and failed: {failure}"
    return ApiError(errors.ADMISSION, message, (Problem("$", str(failure)),))
