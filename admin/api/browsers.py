"""Requests that a web page of another site makes a browser send are refused.

An admin on loopback may need no token, and every page that a browser on that machine shows can reach it: under another
name for the same address (DNS rebinding), with a form, or with `fetch`. A browser says where a request comes from, so
the name the admin is called by is checked against a list, a foreign origin is refused, and a body must be JSON: a form
cannot send it, and `fetch` would have to ask first. The forms of the console are taken where the browser says that a
page of ours sent them. A change without a body needs no type, as `curl -X POST` sends none: browsers name the origin of
everything that is not GET or HEAD.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from admin.core.hosts import is_loopback
from admin.core.problems import shorten
from admin.errors import ForeignOrigin, UnknownHost, UnsupportedMediaType

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = frozenset({"same-origin", "none"})  # none: typed into the address bar
_USUAL_PORTS = (80, 443)
_MOST_ADMITTED = 256
#: What browsers send forms as; the second where they have a file.
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
#: Below it the console has its pages, and takes forms, each with a token that only one of its pages can know.
CONSOLE = "/console/"


class BrowserGuard:
    """Refuses what no client of ours sends, but a page of another site may."""

    def __init__(self, hosts: Iterable[str] | None) -> None:
        """`hosts` are the names the admin may be called by besides those of loopback; None admits every name."""
        self._admits_every_host = hosts is None
        self._hosts = frozenset(_hostname(host) for host in hosts or ())
        self._admitted: set[str] = set()  # Host headers seen before, for speed

    def check(self, environ: WSGIEnvironment) -> None:
        """Raise UnknownHost, ForeignOrigin or UnsupportedMediaType for a request that is refused."""
        host = environ.get("HTTP_HOST")
        if host is not None and host not in self._admitted:
            self._check_host(host)
        if "HTTP_ORIGIN" in environ:
            _check_origin(environ["HTTP_ORIGIN"], host or "")
        if environ.get("HTTP_SEC_FETCH_SITE", "none") not in _OWN_SITES and not _is_navigation(environ):
            raise ForeignOrigin()
        is_safe = environ["REQUEST_METHOD"] in _SAFE_METHODS
        if not is_safe and not may_be_json(environ.get("CONTENT_TYPE")) and not _is_own_form(environ):
            raise UnsupportedMediaType()

    def _check_host(self, header: str) -> None:
        name = _hostname(header)
        is_own = is_loopback(name) or name.endswith(".localhost")  # which can only mean the browser's machine
        if not (self._admits_every_host or is_own or name in self._hosts):
            raise UnknownHost(
                f"This admin is not called '{shorten(name)}'. If it should be, add the name to server.allowedHosts in "
                "its configuration."
            )
        if len(self._admitted) < _MOST_ADMITTED:
            self._admitted.add(header)


def _is_own_form(environ: WSGIEnvironment) -> bool:
    """Whether a form of the console was sent, by a browser that says that a page of ours had it."""
    mime = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    is_form = mime in _FORMS and environ.get("PATH_INFO", "").startswith(CONSOLE)
    return is_form and ("HTTP_ORIGIN" in environ or environ.get("HTTP_SEC_FETCH_SITE") == "same-origin")


def _hostname(netloc: str) -> str:
    try:
        return (urlsplit(f"//{netloc}").hostname or "").removesuffix(".")
    except ValueError:
        return netloc.lower()


def _check_origin(origin: str, host: str) -> None:
    """An origin is our own where it has the name and port that the request was sent to; a proxy may end TLS."""
    place = _place(origin)
    if place is None or place != _place(f"//{host}"):
        raise ForeignOrigin(
            f"A page of {shorten(origin)} may not use this admin: only pages that the admin itself serves may."
        )


def _place(url: str) -> tuple[str, int | None] | None:
    """The name and the port of a URL, if it has a name; the usual ports are as good as none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    return (parts.hostname, None if port in _USUAL_PORTS else port) if parts.hostname else None


def _is_navigation(environ: WSGIEnvironment) -> bool:
    """Whether the request follows a link: the page that had the link cannot read the answer, nor frame it."""
    is_page = environ.get("HTTP_SEC_FETCH_DEST", "document") == "document"
    return is_page and environ["REQUEST_METHOD"] in _SAFE_METHODS and environ.get("HTTP_SEC_FETCH_MODE") == "navigate"


def may_be_json(content_type: str | None) -> bool:
    """Whether a body is JSON by its type. None has no type: it may be missing, while a form always has one."""
    if not content_type:
        return True
    mime = content_type.partition(";")[0].strip().lower()
    return mime == "application/json" or (mime.startswith("application/") and mime.endswith("+json"))
