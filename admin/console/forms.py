"""Forms: a token on each of them that only a page of the console can know, and what their senders are told once.

The token is made of a random cookie and of the session. It is another one on each page, so that nothing can be learnt
from how well a page compresses.
"""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256

from flask import g, request

from admin.core.problems import invalid
from admin.errors import FormExpired, InvalidRequest

FORM_COOKIE = "rainbow-form"
SESSION_COOKIE = "rainbow-session"
NOTICE_COOKIE = "rainbow-notice"
#: The field of a form that has its token.
TOKEN_FIELD = "form_token"

_MOST_CHARACTERS = 128
_MOST_FIELDS = 5000


def form_token() -> str:
    """A token for a form on the page that is being made."""
    nonce = secrets.token_hex(8)
    return f"{nonce}.{_sign(form_key(), nonce)}"


def form_key() -> str:
    """The random cookie of this browser, which it gets with this answer if it has none."""
    key = request.cookies.get(FORM_COOKIE) or g.get("form_key")
    if not key or len(key) > _MOST_CHARACTERS:
        key = secrets.token_urlsafe(24)
    g.form_key = key
    return key


def _sign(key: str, nonce: str) -> str:
    session = request.cookies.get(SESSION_COOKIE, "")
    return hmac.new(f"{key} {session}".encode(), nonce.encode(), sha256).hexdigest()


def check_form() -> dict[str, str]:
    """The fields of the form that was sent; FormExpired where no page of ours had it."""
    if request.get_data().count(b"&") >= _MOST_FIELDS:  # before any of them is read
        raise InvalidRequest(f"This form has more than {_MOST_FIELDS} fields.")
    key = request.cookies.get(FORM_COOKIE, "")
    nonce, _, signature = request.form.get(TOKEN_FIELD, "").partition(".")
    if not key or not hmac.compare_digest(signature.encode(), _sign(key, nonce).encode()):
        raise FormExpired()
    for name, values in request.form.lists():
        if len(values) > 1:
            raise invalid(name, "is given several times; give it once.")
    return {name: value for name, value in request.form.items() if name != TOKEN_FIELD}
