"""The console as a part of the admin: its pages, who they are for, and the pages that answer errors."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from flask import Blueprint, Flask, Response, redirect, render_template, request
from werkzeug.sansio.http import parse_cookie

from admin.api.operations import Operation
from admin.console import (
    access,
    actions,
    assets,
    candidates,
    cluster_groups,
    creations,
    definitions,
    executions,
    fields,
    filters,
    fleet,
    history,
    live,
    logs,
    overview,
    sessions,
    setting_edits,
    settings,
    signing_in,
    switches,
    token_pools,
    users,
    what_if,
)
from admin.console.answers import OPERATIONS, error_answer
from admin.console.forms import SESSION_COOKIE
from admin.console.pages import ANEW, PREFIX, Page
from admin.console.responses import finish
from admin.console.signing_in import GATE
from admin.core.permissions import PERMISSIONS
from admin.errors import PathNotFound, RainbowError, Unauthenticated

#: Each noun's pages.
_PAGES = (
    *(
        actions.pages,
        assets.pages,
        cluster_groups.pages,
        creations.pages,
        definitions.pages,
        executions.pages,
        fleet.pages,
        history.pages,
    ),
    *(live.pages, logs.pages, overview.pages, sessions.pages, setting_edits.pages, settings.pages),
    *(access.pages, signing_in.pages, switches.pages, token_pools.pages, users.pages, what_if.pages),
)
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

#: The other tabs of some parts, each with its permission, for those who may not see the first.
_TABS = {
    "/fleet": (("/fleet/namespaces", "attributes.read"),),
    "/users": (("/access/groups", "groups.read"), ("/access", "grants.read"), ("/audit", "audit.read")),
}

#: Pages that belong to one of these parts, and do not stand below its first page.
_ALSO = {
    "/users": ("/access", "/audit", "/sessions", "/define/group", "/define/grant"),
    "/token-pools": ("/define/token-pool",),
}


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
        app.extensions[live.PAGES] = {page.path: page for page in all_pages() if page.live}
        app.jinja_env.filters["visible"] = logs.visible
        app.jinja_env.globals["new_key"] = fields.new_key
        app.jinja_env.globals["asset"] = assets.asset
        app.jinja_env.globals["ranking_of"] = candidates.ranking_of
        app.jinja_env.globals["navigation"] = _navigation
        for pages in _PAGES:
            app.register_blueprint(pages.blueprint)
        app.after_request(lambda response: live.measured(finish(response)) if self.owns(request.path) else response)

    def owns(self, path: str) -> bool:
        """Whether a path is of the console."""
        return path == PREFIX or path.startswith(f"{PREFIX}/")

    def session(self, environ: WSGIEnvironment) -> str | None:
        """The id of the session that a request brings."""
        # As text: bytes that are no UTF-8 would be an error of the admin.
        return parse_cookie(environ.get("HTTP_COOKIE", "")).get(SESSION_COOKIE)

    def answer(self, error: RainbowError, request_id: str) -> Response:
        """What answers an error: the page for signing in, or one that says what REST says."""
        is_page = request.method in ("GET", "HEAD") and not _is_for_script()
        # Where nobody can sign in, what is missing is said in place of a page that leads back here.
        if isinstance(error, Unauthenticated) and is_page and self._app.extensions[GATE].takes_tokens:
            asked = quote(request.path) + (f"?{request.query_string.decode('latin-1')}" if request.query_string else "")
            return _redirect(filters.page("sign-in", next=asked if asked != f"{PREFIX}/" else None))
        answered = error_answer(error, request_id)
        if type(error) is PathNotFound and error.message == PathNotFound().message:
            answered["message"] = "There is no such page. The parts of the console are above."
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
    # Browsers send no Sec-Fetch-Dest over plain HTTP, so scripts say it themselves.
    return request.headers.get("Sec-Fetch-Dest", "document") == "empty" or ANEW in request.headers


def _navigation() -> list[dict[str, object]]:
    """The parts of the console that there are and that the caller may see."""
    if filters.identity() is None:
        return []
    present = {page.path for page in all_pages()}
    entries: list[dict[str, object]] = []
    for title, path, permission in NAVIGATION:
        tabs = ((path, permission), *_TABS.get(path, ()))
        seen = [tab for tab, needed in tabs if not needed or filters.may_somewhere(needed)]
        if PREFIX + path in present and seen:
            own = PREFIX + path
            roots = [own, *(PREFIX + other for other in _ALSO.get(path, ()))]
            is_current = any(
                request.path == root or (path != "/" and request.path.startswith(f"{root}/")) for root in roots
            )
            entries.append({"title": title, "path": PREFIX + seen[0], "is_current": is_current})
    return entries


assert all(permission is None or permission in PERMISSIONS for _, _, permission in NAVIGATION)

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment
