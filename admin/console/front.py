"""The console as a part of the admin: its pages, who they are for, and the pages that answer errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, Flask, Response, redirect, render_template, request
from werkzeug.http import parse_cookie

from admin.api.operations import Operation
from admin.console import assets, executions, filters, overview, signing_in
from admin.console.answers import OPERATIONS
from admin.console.forms import SESSION_COOKIE
from admin.console.pages import PREFIX, Page
from admin.console.responses import finish
from admin.core.permissions import PERMISSIONS
from admin.errors import RainbowError, Unauthenticated
from admin.messages.errors import ErrorAnswer

#: Each noun's pages.
_PAGES = (assets.pages, executions.pages, overview.pages, signing_in.pages)
#: The parts of the console, in the order of the header: title, first page and the permission that one needs for it.
#: One is shown as soon as there is such a page.
NAVIGATION = (
    ("Overview", "/", None),
    ("Settings", "/settings", "attributes.read"),
    ("Executions", "/executions", "executions.read"),
    ("Create", "/create", "executions.create"),
    ("Fleet", "/fleet", "fleet.read"),
    ("Token pools", "/token-pools", "token_pools.read"),
    ("Users", "/users", "users.read"),
    ("What if", "/what-if", "attributes.read"),
    ("History", "/history", "attributes.read"),
)


def all_pages() -> list[Page]:
    """Every page of the console."""
    return [page for pages in _PAGES for page in pages.all]


class Console:
    """The console of an app."""

    def __init__(self, app: Flask, operations: list[Operation]) -> None:
        self._app = app
        app.extensions[OPERATIONS] = {operation.id: operation for operation in operations}
        # One blueprint has the templates of all.
        app.register_blueprint(Blueprint("console", __name__, template_folder="templates"))
        filters.add_to(app)
        app.jinja_env.globals["asset"] = assets.asset
        app.jinja_env.globals["navigation"] = _navigation
        for pages in _PAGES:
            app.register_blueprint(pages.blueprint)
        app.after_request(lambda response: finish(response) if self.owns(request.path) else response)

    def owns(self, path: str) -> bool:
        """Whether a path is of the console."""
        return path == PREFIX or path.startswith(f"{PREFIX}/")

    def session(self, environ: WSGIEnvironment) -> str | None:
        """The id of the session that a request brings."""
        return parse_cookie(environ).get(SESSION_COOKIE)

    def answer(self, error: RainbowError, request_id: str) -> Response:
        """What answers an error: the page for signing in, or one that says what REST says."""
        if isinstance(error, Unauthenticated) and request.method in ("GET", "HEAD") and not _is_for_script():
            asked = request.full_path.rstrip("?")
            return _redirect(filters.page("sign-in", next=asked if asked != f"{PREFIX}/" else None))
        answered = ErrorAnswer.from_error(error, request_id)
        page = render_template("error.html", title=_TITLES.get(error.status, "Error"), error=answered)
        response = Response(page, status=error.status, mimetype="text/html")
        if error.retry_after is not None:
            response.headers["Retry-After"] = str(error.retry_after)
        return response

    def refuse(self, environ: WSGIEnvironment, error: RainbowError, request_id: str) -> Response:
        """The same for a request that did not get as far as Flask."""
        with self._app.request_context(environ):
            return finish(self.answer(error, request_id))


_TITLES = {
    400: "This cannot be done as asked",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Not allowed here",
    409: "In conflict with what is there",
    429: "Too many requests",
    503: "Not available now",
}


def _redirect(address: str) -> Response:
    response = redirect(address)
    assert isinstance(response, Response)
    return response


def _is_for_script() -> bool:
    """Whether a script of a page sent the request, which can show no page for signing in."""
    return request.headers.get("Sec-Fetch-Dest", "document") == "empty"


def _navigation() -> list[dict[str, object]]:
    """The parts of the console that there are and that the caller may see."""
    if filters.identity() is None:
        return []
    present = {page.path for page in all_pages()}
    entries: list[dict[str, object]] = []
    for title, path, permission in NAVIGATION:
        is_seen = permission is None or filters.may_somewhere(permission)
        if PREFIX + path in present and is_seen:
            own = PREFIX + path
            is_current = request.path == own or (path != "/" and request.path.startswith(f"{own}/"))
            entries.append({"title": title, "path": own, "is_current": is_current})
    return entries


assert all(permission is None or permission in PERMISSIONS for _, _, permission in NAVIGATION)

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment
