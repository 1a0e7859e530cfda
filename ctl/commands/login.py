"""`login` and `logout`: tokens of the admin's OpenID provider, kept for this context."""

from __future__ import annotations

import time

from ctl.cli.groups import command
from ctl.cli.options import Option
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.client import Client
from ctl.client.contexts import Settings
from ctl.client.errors import InvalidInput, RainbowError, Unauthenticated
from ctl.client.logins import Login, Logins
from ctl.client.openid import Provider, Tokens

#: How long a browser on this machine may take.
_BROWSER_SECONDS = 300.0

_LOGIN_HELP = """Log in at the OpenID provider of the admin, and keep the tokens for this context.

Shows a page and a code to enter there, in a browser on any machine; with --browser, opens one on this machine and waits
for it. The tokens are kept in ~/.config/rainbow/logins.json with mode 0600, sent to this endpoint only, and refreshed
quietly. --token-file, RAINBOW_TOKEN and a context's token_file win over a login.
"""
_LOGOUT_HELP = """Delete the tokens of this context's login, and revoke it at the OpenID provider where that answers."""


@command(
    help=_LOGIN_HELP,
    params=[Option(["--browser"], is_flag=True, help="Open a browser on this machine, in place of a code to enter.")],
    examples=["rainbowctl login", "rainbowctl --context staging login --browser"],
)
def login(session: Session, browser: bool) -> None:
    settings = session.settings
    logins = Logins(settings.logins_file)
    logins.find(settings.context.value, settings.admin_url)  # refuses a file that cannot be used before anybody logs in
    with _client(settings) as client:
        described = client.provider()
    client_id = described.get("client_id")
    if not client_id:
        raise InvalidInput(
            f"The admin at {settings.admin_url} names no client that rainbowctl could be (openid.clientId): ask the "
            "team that runs it, or give a token with --token-file."
        )
    provider = Provider(str(described["issuer"]), str(client_id), timeout=settings.timeout_seconds)
    scopes = [str(scope) for scope in described.get("scopes") or ["openid"]]
    if browser:
        tokens = _log_in_here(session, provider, str(client_id), scopes)
    else:
        tokens = _log_in_anywhere(session, provider, scopes)
    user = _accepted_user(settings, provider.issuer, tokens)
    new = Login(
        context=settings.context.value,
        endpoint=settings.admin_url,
        issuer=provider.issuer,
        client_id=str(client_id),
        access_token=tokens.access_token,
    ).with_tokens(tokens, time.time())
    with logins.locked():
        logins.keep(new)
    session.printer.machine_output([_name(new)], {**_document(new), "user": user})
    session.printer.note(f"Logged in to {new.endpoint} as {user}, at {new.issuer}.")
    given = settings.token_text if settings.token_text.value else settings.token_file
    if given.value:
        session.printer.warning(f"a token is given too ({given.origin}), and wins over this login")


def _client(settings: Settings, token: str | None = None) -> Client:
    """A client with this token alone, whatever else is given or kept."""
    return Client(
        str(settings.endpoint.value), token=token, ca_file=settings.ca_file.value, timeout=settings.timeout_seconds
    )


def _log_in_anywhere(session: Session, provider: Provider, scopes: list[str]) -> Tokens:
    code = provider.begin_device_login(scopes)
    text = f"Open {code.verification_uri} and enter the code {code.user_code}."
    if code.complete_uri is not None:
        text += f" Or open {code.complete_uri}, and compare the code."
    session.printer.instruction(text)
    return provider.wait_for_device(code, sleep=session.sleep, monotonic=session.monotonic)


def _log_in_here(session: Session, provider: Provider, client_id: str, scopes: list[str]) -> Tokens:
    from ctl.client.openid_browser import log_in_with_browser

    def show(url: str) -> None:
        import webbrowser

        session.printer.instruction(f"Log in with a browser on this machine: {url}")
        webbrowser.open(url)

    return log_in_with_browser(provider, client_id, scopes, show, seconds=_BROWSER_SECONDS)


def _accepted_user(settings: Settings, issuer: str, tokens: Tokens) -> str:
    """Whom the admin takes the token for; a login whose token it does not accept is refused."""
    try:
        with _client(settings, tokens.access_token) as client:
            return str(client.whoami()["user"])
    except Unauthenticated as error:
        error.message = f"{issuer} gave a token, but the admin refuses it: {error.message}"
        raise


@command(help=_LOGOUT_HELP, examples=["rainbowctl logout", "rainbowctl --context staging logout"])
def logout(session: Session) -> None:
    settings = session.settings
    logins = Logins(settings.logins_file)
    with logins.locked():
        ended = logins.find(settings.context.value, settings.admin_url)
        if ended is not None:
            logins.forget(ended)
    if ended is None:
        session.printer.machine_output([], {"endpoint": settings.admin_url, "changed": False})
        session.printer.note(f"No changes: there was no login to {settings.admin_url}.")
        return
    is_revoked = _revoke(session, ended)
    session.printer.machine_output([_name(ended)], {**_document(ended), "changed": True, "revoked": is_revoked})
    session.printer.note(f"Logged out of {ended.endpoint}.")


def _revoke(session: Session, login: Login) -> bool:
    """Whether the provider ended the login; the tokens are gone from here in any case."""
    if login.refresh_token is None:
        return False
    try:
        provider = Provider(login.issuer, login.client_id, timeout=session.settings.timeout_seconds)
        return provider.revoke(login.refresh_token)
    except RainbowError as error:
        session.printer.warning(f"the login could not be ended at the provider. {error.message}")
        return False


def _name(login: Login) -> str:
    return f"login/{login.context or login.endpoint}"


def _document(login: Login) -> Document:
    """A login as programs see it: without its tokens."""
    from datetime import UTC, datetime

    document: Document = {"endpoint": login.endpoint, "issuer": login.issuer}
    if login.context:
        document = {"context": login.context, **document}
    if login.expires_at is not None:
        expires_at = datetime.fromtimestamp(login.expires_at, UTC).isoformat(timespec="seconds")
        document["expires_at"] = expires_at.replace("+00:00", "Z")
    return document
