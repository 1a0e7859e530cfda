"""Signing in with a token or at an OpenID provider, and signing out."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping

from flask import Response, current_app, redirect, request

from admin.api.current import FAILURE, context, origin
from admin.console.answers import asked_query
from admin.console.filters import page
from admin.console.forms import SESSION_COOKIE
from admin.console.pages import PREFIX, Pages, Shown, go_to, render
from admin.console.responses import is_secure, set_cookie
from admin.core.identities import Proof
from admin.core.permissions import OPEN
from admin.errors import NoProvider, RainbowError, Unauthenticated
from admin.gate import Gate
from admin.services.audit import note_session_started, note_signed_out
from admin.services.sessions import end_session, name_of, name_of_id, start_session

pages = Pages("signing-in")

#: Where the app keeps its gate.
GATE = "rainbow-gate"

_LOGIN_COOKIE = "rainbow-login"
_LOGIN_SECONDS = 600
_WRONG_TOKEN = "This token is unknown, revoked or expired. Check that all of it was copied, or use another one."
_FINISH = "/sign-in/openid/finish"
_MOST_CHARACTERS = 2000  #: of an address, so that it fits into a cookie
#: Addresses of this console: no other host, and nothing that a browser might take for one.
_LOCAL = re.compile(rf"{PREFIX}/[\x21-\x5b\x5d-\x7e]*")


@pages.add("GET", "/sign-in", permission=OPEN)
def sign_in() -> str:
    """The page for signing in."""
    query = asked_query("next")
    return _page(query.get("next"))


def _page(after: str | None, error: str | None = None) -> str:
    openid = context().settings.openid
    return render(
        "sign_in.html",
        title="Sign in",
        after=_local(after),
        error=error,
        takes_tokens=_gate().takes_tokens,
        issuer=openid.issuer if openid is not None and openid.client_id is not None else None,
    )


@pages.add("POST", "/sign-in", permission=OPEN)
def sign_in_with_token(form: Mapping[str, str]) -> Shown:
    """Begin a session with a token; a wrong one is said on the page."""
    try:
        return _begin(form.get("token", "").strip(), form.get("next"))
    except Unauthenticated as error:
        return _refused(error, form.get("next"), _WRONG_TOKEN)
    except RainbowError as error:
        return _refused(error, form.get("next"))


def _refused(error: RainbowError, after: str | None, told: str | None = None) -> Response:
    """The page for signing in, with why that failed."""
    request.environ[FAILURE] = error  # to be audited
    shown = Response(_page(after, told or error.message), status=error.status, mimetype="text/html")
    if error.retry_after is not None:
        shown.headers["Retry-After"] = str(error.retry_after)
    return shown


@pages.add("GET", "/sign-in/openid", permission=OPEN)
def begin_openid() -> Response:
    """Send the browser to the OpenID provider."""
    from admin.services.openid_logins import begin_login  # loads what an admin without a provider has no use for

    openid = context().settings.openid
    if openid is None:
        raise NoProvider()
    after = _local(asked_query("next").get("next"))
    begun = begin_login(openid, _redirect_uri())
    response = redirect(begun.url)
    assert isinstance(response, Response)
    set_cookie(response, _LOGIN_COOKIE, f"{begun.state} {begun.verifier} {after}", _LOGIN_SECONDS)
    return response


@pages.add("GET", _FINISH, permission=OPEN)
def finish_openid() -> Shown:
    """Begin a session with what the OpenID provider answered."""
    from admin.services.openid_logins import finish_login

    openid = context().settings.openid
    if openid is None:
        raise NoProvider()
    state, verifier, after = [*request.cookies.get(_LOGIN_COOKIE, "").split(" "), "", "", ""][:3]
    answered = request.args
    try:
        is_ours = state and hmac.compare_digest(answered.get("state", "").encode(), state.encode())
        if not is_ours or answered.get("iss", openid.issuer) != openid.issuer:
            raise Unauthenticated("This answers no login that this browser began. Sign in again.")
        if "code" not in answered:
            raise Unauthenticated("The OpenID provider refused the login. Sign in again, or give a token.")
        token = finish_login(openid, code=answered["code"], redirect_uri=_redirect_uri(), verifier=verifier)
        response = _begin(token, after)
    except RainbowError as error:
        response = _refused(error, after)
    response.delete_cookie(_LOGIN_COOKIE, path=PREFIX)
    return response


@pages.add("POST", "/sign-out", permission=OPEN)
def sign_out(form: Mapping[str, str]) -> Response:
    """End the session."""
    session = request.cookies.get(SESSION_COOKIE)
    ended = end_session(context(), session) if session else None
    if ended is not None:
        note_signed_out(context(), origin(), ended, name_of(ended.hash))
    response = go_to(page("sign-in"), "You are signed out.")
    response.delete_cookie(SESSION_COOKIE, path=PREFIX)
    return response


def _begin(token: str, after: str | None) -> Response:
    identity = _gate().identify(token or None, request.remote_addr or "")
    response = go_to(_local(after))
    if before := request.cookies.get(SESSION_COOKIE):
        end_session(context(), before)
    if identity.proof is not Proof.NONE:
        browser = request.headers.get("User-Agent")
        started = start_session(context(), identity, token, address=request.remote_addr, browser=browser)
        set_cookie(response, SESSION_COOKIE, started.id, int(context().settings.console_session_seconds))
        note_session_started(context(), origin(), started.session, name_of_id(started.id))
    return response


def _local(address: str | None) -> str:
    """Where to go after signing in: a page of this console, else the first one."""
    if address is None or len(address) > _MOST_CHARACTERS or not _LOCAL.fullmatch(address):
        return page()
    return page() if "//" in address.partition("?")[0] else address


def _redirect_uri() -> str:
    """Where the OpenID provider sends the browser back to, which its client must name."""
    scheme = "https" if is_secure() else request.scheme
    return f"{scheme}://{request.host}{PREFIX}{_FINISH}"


def _gate() -> Gate:
    gate: Gate = current_app.extensions[GATE]
    return gate
