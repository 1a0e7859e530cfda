"""Live pages: server-sent events that tell an open page when to ask for its regions again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import parse_qsl, urlsplit

from flask import Response, current_app, g, request
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from admin.api.current import READMIT, access, context
from admin.api.scopes import check_request
from admin.console.answers import asked_query
from admin.console.logs import LOG
from admin.console.pages import ANEW, PREFIX, Page, Pages, shown_to
from admin.core.permissions import SIGNED_IN
from admin.core.problems import invalid
from admin.gate import Caller
from admin.services.context import Context
from admin.services.live_streams import MAY_STAY_OPEN, OPENED, POLL_SECONDS, Sink, Stream
from admin.services.visibility import access_of

pages = Pages("live")

#: Where the app keeps the live pages by the rules of their paths.
PAGES = "rainbow-live-pages"


@pages.add("GET", "/events", permission=SIGNED_IN)
def get_events() -> Response:
    """Tells when what a page shows has changed: `page` is its address, and `seen` the version that it has."""
    query = asked_query("page", "seen")
    address = query.get("page", "")
    page, path, asked = _page_at(address)
    if access().is_restricted:
        check_request(page, access(), path, asked, None)
    admin: Context = current_app.extensions["rainbow"]  # as nobody sees it, for rights are asked anew
    subject = page.subject(path)
    # Each page of a log asks for the pieces that it lacks, so that no answer is shared.
    is_shared = page.path != PREFIX + LOG
    shown = shown_to(access(), page, path, urlsplit(address).query) if is_shared else object()
    response = Response(iter(()), mimetype="text/event-stream")
    environ = request.environ
    if environ.get(MAY_STAY_OPEN) and admin.live_streams.has_room and request.method == "GET":
        seen = request.headers.get("Last-Event-ID") or query.get("seen", "")
        admit = partial(_admit, environ[READMIT], admin, page, path, asked)

        def opened(sink: Sink) -> None:
            stream = Stream(page=page.path, shown=shown, subject=subject, version=seen, admit=admit, sink=sink)
            admin.live_streams.open(stream)

        environ[OPENED] = opened
    else:  # one look, for a page that comes back for the next
        response.set_data(admin.live_streams.refusal(page.path, subject))
        response.headers["Retry-After"] = str(POLL_SECONDS)
    return response


def measured(response: Response) -> Response:
    """Note what it cost to show a page anew."""
    if "began" in g and ANEW in request.headers:
        seconds = time.thread_time() - g.began
        context().live_streams.note_cost(g.measured_page, seconds, is_shared=g.get("is_shared", False))
    return response


def _page_at(address: str) -> tuple[Page, dict[str, str], dict[str, str]]:
    """The live page of an address, with the parts of its path and its query."""
    parts = urlsplit(address)
    try:
        rule, path = current_app.url_map.bind("").match(parts.path, method="GET", return_rule=True)
    except (HTTPException, RequestRedirect):
        rule = None
    live: Mapping[str, Page] = current_app.extensions[PAGES]
    if rule is None or rule.rule not in live:
        raise invalid("page", "is not the address of a page that is kept up to date, such as /console/executions.")
    return live[rule.rule], dict(path), dict(parse_qsl(parts.query))


def _admit(
    admit: Callable[[], Caller], admin: Context, page: Page, path: Mapping[str, str], asked: Mapping[str, str]
) -> None:
    """Admit the caller of a stream again."""
    granted = access_of(admin, admit().identity)
    if granted.is_restricted:
        check_request(page, granted, path, dict(asked), None)
