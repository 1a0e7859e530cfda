"""Pages: a route with the permission that it needs, as operations of REST declare it, and how it is rendered."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from flask import Blueprint, Response, g, redirect, render_template, request

from admin import gate
from admin.api.current import access, context
from admin.api.scopes import Guarded, check_request
from admin.console.forms import check_form
from admin.core.live_subjects import Subject, Topic
from admin.core.permissions import OPEN, check_requirement
from admin.core.problems import invalid
from admin.services.access import Access

PREFIX = "/console"
#: The header by which the script of a page asks, such as for the page itself again.
ANEW = "Rainbow-Live"
#: The header in which it says when it was told to.
TOLD = "Rainbow-Told"
#: What a page may answer with: the text of a template, or a response of its own.
Shown = str | Response
View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Page(Guarded):
    """One method of one path of the console."""

    live: tuple[Topic, ...] = ()  #: what it shows, if it is kept up to date

    def subject(self, path: Mapping[str, str]) -> Subject:
        """What it shows where its path has these parts."""
        is_of_execution = Topic.EXECUTION in self.live or Topic.LOG in self.live
        return Subject(self.live, (path["project"], path["domain"], path["name"]) if is_of_execution else None)


class Pages:
    """The pages of one noun."""

    def __init__(self, noun: str) -> None:
        self.blueprint = Blueprint(f"console-{noun}", __name__)
        self.all: list[Page] = []

    def add(
        self,
        method: str,
        path: str,
        *,
        permission: str,
        also: str | None = None,
        shows_some: bool = False,
        own: str | None = None,
        live: tuple[Topic, ...] = (),
    ) -> Callable[[View], View]:
        """Declare a page; its view gets the path's parts, and `form` where it is sent one, which is checked before.

        The permission is never left out. `also`, `shows_some` and `own` are those of `Operations.add`. With `live` the
        regions of the page that are marked with `data-live` are shown anew when any of that changes.
        """

        def register(view: View) -> View:
            page = Page(
                method=method,
                path=PREFIX + path,
                permission=check_requirement(permission),
                also=None if also is None else check_requirement(also),
                shows_some=shows_some,
                own=own,
                live=live,
                is_open=permission == OPEN,
            )
            self.all.append(page)
            endpoint = f"{method.lower()} {path}".replace(".", "_")
            self.blueprint.add_url_rule(page.path, endpoint, _handler(page, view), methods=[method])
            return view

        return register


def _handler(page: Page, view: Callable[..., Shown]) -> Callable[..., Response]:
    def handle(**path: str) -> Response:
        arguments: dict[str, Any] = dict(path)
        for name, value in path.items():
            if "\0" in value:  # no database can even be asked for it
                raise invalid(name, "holds a character that no name has.")
        if page.method == "POST":
            most = request.max_content_length or 0
            request.max_content_length = min(most, gate.MOST_OPEN_BYTES) if page.is_open else most
            request.max_form_memory_size = request.max_content_length
            arguments["form"] = check_form()
        if not page.is_open:
            granted = access()
            if granted.is_restricted:
                check_request(page, granted, path, request.args.to_dict(), None)
        shown = view(**arguments) if not page.live else _live(page, path, partial(view, **arguments))
        return Response(shown, mimetype="text/html") if isinstance(shown, str) else shown

    return handle


def _live(page: Page, path: Mapping[str, str], view: Callable[[], Shown]) -> Shown:
    """A page that is kept up to date; where it is shown anew, perhaps as others were shown it a moment ago."""

    def make() -> str:
        g.live_version = context().live_streams.version(page.subject(path))  # before what it is the version of
        made = view()
        assert isinstance(made, str), "what is kept up to date has regions"
        return made

    g.is_anew = ANEW in request.headers
    if not g.is_anew:
        return make()
    begin_measuring(page.path)
    shown = shown_to(access(), page, path, request.query_string.decode("latin-1"))
    body, g.is_shared = context().live_answers.give(shown, _told_at(), make)
    return body


def shown_to(granted: Access, page: Page, path: Mapping[str, str], query: str) -> Hashable:
    """The same for all pages of one address whose viewers are shown the same."""
    # Where the use of clusters is granted, what one is told of them depends on who asks.
    asker = granted.identity if context().settings.is_cluster_use_closed else None
    return page.path, tuple(path.values()), query, granted.rights, asker


def _told_at() -> float | None:
    """When the page that asks was told that it has changed, in seconds since the epoch, if it says so."""
    try:
        return float(request.headers[TOLD])
    except (KeyError, ValueError):
        return None


def begin_measuring(page: str) -> None:
    """Begin to measure what it costs to show a page anew, which open pages do only so often together."""
    g.measured_page, g.began = page, time.thread_time()


def render(template: str, *, title: str, commands: Iterable[Sequence[str]] = (), **values: Any) -> str:
    """A page made of a template; `commands` are those of rainbowctl that tell the same."""
    return render_template(template, title=title, commands=[list(command) for command in commands], **values)


def go_to(address: str, notice: str | None = None) -> Response:
    """Lead the browser to another page after a write, which tells once what was done."""
    response = redirect(address, 303)
    assert isinstance(response, Response)
    if notice is not None:
        g.notice = notice  # which its cookie gets with the other headers
    return response


def is_unconfirmed(form: Mapping[str, str], name: str) -> bool:
    """Whether a confirmation does not name the thing; the page is then to be shown again, with what was filled in."""
    if form.get("confirmation", "").strip() == name:
        return False
    g.filled, g.unconfirmed = form, f"This does not name it: type {name} to confirm."
    return True


def shown_again(page: str) -> Response:
    """A page whose form was refused, with what is wrong."""
    return Response(page, status=400, mimetype="text/html")
