"""The shared bearer token, until there are users."""

from __future__ import annotations

import hmac
from pathlib import Path

from flask import Flask, request

from admin.core.problems import Invalid, Problem
from admin.errors import Unauthenticated


def read_token(path: str) -> str:
    """The token in a file; Invalid where there is none, or one too short to keep anybody out."""
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise Invalid(Problem(field="server.apiTokenFile", reason=f"{path} cannot be read: {reason}.")) from error
    if len(token) < 16 or not token.isascii() or any(char.isspace() for char in token):
        reason = f"{path} must hold one token of at least 16 plain characters; `openssl rand -hex 32` makes one."
        raise Invalid(Problem(field="server.apiTokenFile", reason=reason))
    return token


def guard(app: Flask, token: str, open_rules: frozenset[str]) -> None:
    """Let nothing but the open paths through without the token."""

    @app.before_request
    def check() -> None:
        rule = request.url_rule
        if rule is not None and rule.rule in open_rules:
            return
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if given and scheme.lower() == "bearer" and not hmac.compare_digest(given.strip().encode(), token.encode()):
            raise Unauthenticated("The bearer token is not the one that this admin accepts. Check RAINBOW_TOKEN.")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
            raise Unauthenticated()
