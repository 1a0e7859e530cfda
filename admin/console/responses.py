"""What every answer of the console has: headers that keep other sites out, and a compressed body."""

from __future__ import annotations

import gzip

from flask import Response, g, request

from admin.console.forms import FORM_COOKIE, NOTICE_COOKIE
from admin.console.pages import PREFIX
from admin.core.hosts import is_safe_url
from admin.core.problems import shorten

_POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{what}-src 'self'" for what in ("script", "style", "img", "connect")),
        *("form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"),
    ]
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: browsers would then not say from which page a form was sent.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
#: Browsers take it only from where they trust, and call it an error elsewhere.
_OPENER = {"Cross-Origin-Opener-Policy": "same-origin"}
#: A smaller body is sent as it is.
_LEAST_BYTES = 1024
_LEVEL = 5
#: How long a notice waits for the page that tells it, and how many characters fit into a cookie, whatever they are.
_NOTICE_SECONDS = 30
_MOST_NOTICE = 200


def finish(response: Response) -> Response:
    """An answer of the console as it is sent."""
    response.headers.update(_HEADERS)
    if is_secure() or is_safe_url(request.host_url):
        response.headers.update(_OPENER)
    response.vary.update(
        ["Accept-Encoding", "Cookie"] if "Cache-Control" not in response.headers else ["Accept-Encoding"]
    )
    response.headers.setdefault("Cache-Control", "no-store")
    if "form_key" in g and request.cookies.get(FORM_COOKIE) != g.form_key:
        set_cookie(response, FORM_COOKIE, g.form_key)
    if "notice" in g:
        set_cookie(response, NOTICE_COOKIE, shorten(g.notice, _MOST_NOTICE), _NOTICE_SECONDS)
    elif NOTICE_COOKIE in request.cookies and g.get("is_told"):
        response.delete_cookie(NOTICE_COOKIE, path=PREFIX)
    return _compressed(response)


def set_cookie(response: Response, name: str, value: str, seconds: int | None = None) -> None:
    """Give the browser a cookie that it sends to the console alone, and that no script reads."""
    response.set_cookie(name, value, max_age=seconds, path=PREFIX, secure=is_secure(), httponly=True, samesite="Lax")


def is_secure() -> bool:
    """Whether the browser came over TLS, which a proxy may have ended."""
    # Of several proxies the one that the browser speaks to comes first.
    return (
        request.is_secure or request.headers.get("X-Forwarded-Proto", "").partition(",")[0].strip().lower() == "https"
    )


def takes_gzip() -> bool:
    """Whether the browser takes compressed answers."""
    return request.accept_encodings.quality("gzip") > 0


def _compressed(response: Response) -> Response:
    is_text = response.mimetype in ("text/html", "application/json", "text/plain")
    if response.is_streamed or not is_text or not takes_gzip():
        return response
    body = response.get_data()
    if len(body) >= _LEAST_BYTES and "Content-Encoding" not in response.headers:
        response.set_data(gzip.compress(body, _LEVEL, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
    return response
