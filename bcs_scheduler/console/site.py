"""The paths of the console: the page at `/`, its files, sign-in and sign-out, rights of the caller, figures."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from bcs_scheduler.api.access import NAMED, RequiredAccess, check
from bcs_scheduler.api.http import body, errors
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.api.http.operation import BASE, ApiSettings
from bcs_scheduler.api.http.request_gate import RequestGate, session_key
from bcs_scheduler.console.assets import PREFIX, Asset, assets
from bcs_scheduler.console.figures import Figures
from bcs_scheduler.core.interface.effects import Problem, Reason
from bcs_scheduler.leadership.gateway import Busy, Gateway, halts_of
from bcs_scheduler.security.caller import Caller

PAGE, SESSION, FIGURES = "/", "/console/session", "/console/figures"
METHODS = {PAGE: ("GET", "HEAD"), SESSION: ("GET", "POST", "DELETE"), FIGURES: ("GET",)}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""Content-Security-Policy of the page: only files of this server, no script or style in the page, no HTML from text."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
FOREVER = "public, max-age=31536000, immutable"
LONGEST_TOKEN = 4096
"""Bytes of the body of a sign-in."""
ENTRY_POINTS = {
    "console": "/",
    "api": BASE,
    "openapi": "/openapi.json",
    "health": "/healthz",
    "readiness": "/readyz",
    "version": "/version",
    "metrics": "/metrics",
}
_encoder = msgspec.json.Encoder()


class Site:
    """Answers the paths of the console. `figures` None: there are none."""

    def __init__(self, gateway: Gateway, settings: ApiSettings, gate: RequestGate, figures: Figures | None) -> None:
        self._gateway, self._settings, self._gate, self._figures = gateway, settings, gate, figures

    def owns(self, path: str) -> bool:
        """True if the path is one of the console."""
        return path in METHODS or path.startswith(PREFIX)

    async def answer(self, request: Request) -> Response:
        """Raises ApiError."""
        path, method = request.scope["path"], request.method
        allowed = METHODS.get(path, METHODS[PAGE])
        if method not in allowed:
            words = f"{path} does not take {method}, only {', '.join(allowed)}"
            raise ApiError(errors.NO_METHOD, words, headers={"Allow": ", ".join(allowed)})
        if path == PAGE:
            return self._page(request)
        if path == FIGURES:
            return await run_in_threadpool(self._shown_figures, request)
        if path == SESSION:
            if method == "GET":
                return self._rights(request)
            return await self._sign_in(request) if method == "POST" else self._sign_out(request)
        return self._file(request, path.removeprefix(PREFIX))

    def _page(self, request: Request) -> Response:
        """A browser gets the page; a program gets the list of entry points."""
        if not prefers_html(request.headers.get("accept", "")):
            return _data(ENTRY_POINTS, {"Vary": "Accept"})
        return _sent(request, assets().page, {"Cache-Control": "no-cache", "Vary": "Accept, Accept-Encoding"})

    def _file(self, request: Request, name: str) -> Response:
        asset = assets().files.get(name)
        if asset is None:
            raise ApiError(errors.NO_ROUTE, "this file is not part of this version of the console; load the page again")
        return _sent(request, asset, {"Cache-Control": FOREVER, "Vary": "Accept-Encoding"})

    def _rights(self, request: Request) -> Response:
        """The caller and its rights. Without a session, the answer of a browser says that a sign-in is needed."""
        session = session_key(request) is not None
        if "authorization" not in request.headers and self._gate.asks_for_token(request):
            return _data({"signIn": True, "scheduler": self._scheduler()})
        try:
            caller = self._gate.identify(request, NAMED)
        except ApiError as error:
            if error.reason == errors.UNAUTHENTICATED and session:
                return _data({"signIn": True, "scheduler": self._scheduler()})
            raise
        return _data(self._caller(caller, session=session))

    def _caller(self, caller: Caller, *, session: bool) -> dict[str, Any]:
        return {
            "signIn": False,
            "name": caller.name,
            "means": caller.means,
            "role": caller.role,
            "namespaces": None if caller.namespaces is None else sorted(caller.namespaces),
            "programs": sorted(caller.programs),
            "session": session,
            "halts": [{"code": halt.code, "words": halt.words} for halt in halts_of(self._gateway)],
            "scheduler": self._scheduler(),
        }

    def _scheduler(self) -> dict[str, Any]:
        """`leader`: address of the console that can change anything; null if no scheduler leads."""
        gateway = self._gateway
        try:
            cluster = gateway.state().framework.cluster
        except Busy:
            cluster = ""
        return {
            "leads": gateway.role() == "master",
            "leader": gateway.leader_url(),
            "age": gateway.age(),
            "version": self._settings.version,
            "cluster": cluster,
        }

    async def _sign_in(self, request: Request) -> Response:
        headers = request.headers
        content = await body.read(
            request.stream(),
            headers.get("content-length"),
            headers.get("content-type", ""),
            LONGEST_TOKEN,
            self._settings.body_timeout,
        )
        given = body.parse(content)
        token = given.get("token") if isinstance(given, dict) else None
        if not isinstance(token, str) or not token.strip():
            raise ApiError(Reason.INVALID, "$.token: must be a token", (Problem("$.token", "must be a token"),))
        caller, key = self._gate.sign_in(request, token.strip())
        return _data({**self._caller(caller, session=True), "key": key})

    def _sign_out(self, request: Request) -> Response:
        self._gate.sign_out(request)
        return _data({"signIn": True, "scheduler": self._scheduler()})

    def _shown_figures(self, request: Request) -> Response:
        required = RequiredAccess("viewer", "everywhere")
        check(required, self._gate.identify(request, required), {}, {})
        try:
            samples = self._figures.samples() if self._figures is not None else []
        except Busy as busy:
            raise ApiError(Reason.UNAVAILABLE, str(busy)) from busy
        return _data(samples)


def prefers_html(accept: str) -> bool:
    """True if the header asks for HTML by name, at least as much as for JSON."""
    wanted: dict[str, float] = {}
    for part in accept.split(","):
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = next((p[2:].strip() for p in parameters if p.startswith("q=")), "1")
        try:
            wanted[kind] = float(weight)
        except ValueError:
            wanted[kind] = 0.0
    return wanted.get("text/html", 0.0) > 0 and wanted["text/html"] >= wanted.get("application/json", 0.0)


def _data(data: Any, headers: dict[str, str] | None = None) -> Response:
    envelope = {"result": True, "code": errors.OK, "message": "success", "data": data}
    common = {"Content-Type": errors.MEDIA_TYPE, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(_encoder.encode(envelope), headers={**common, **(headers or {})})


def _sent(request: Request, asset: Asset, headers: dict[str, str]) -> Response:
    """The asset, compressed if the caller takes that; without a body if the caller has it."""
    packed = "gzip" in request.headers.get("accept-encoding", "").lower()
    etag = f'{asset.etag[:-1]}-gzip"' if packed else asset.etag
    common = {**HEADERS, **headers, "ETag": etag}
    if etag in (known.strip() for known in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=common)
    if packed:
        common["Content-Encoding"] = "gzip"
    content = asset.packed if packed else asset.content
    return Response(content, headers={**common, "Content-Type": asset.media_type})
