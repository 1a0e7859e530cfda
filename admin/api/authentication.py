"""The operators' shared bearer token, until there are users, and the tokens of clusters."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from pathlib import Path

from flask import Flask, g, request

from admin.api.operations import Operation
from admin.api.rendering import context
from admin.core.problems import Invalid, Problem
from admin.errors import Forbidden, Unauthenticated
from admin.services.agents import TOKEN_MARK, cluster_of


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


def guard(app: Flask, token: str | None, operations: Iterable[Operation], open_rules: frozenset[str]) -> None:
    """Let nothing but the open paths through without the operators' token, where there is one.

    A cluster's token opens what agents may do, and of the clusters' own paths only its own.
    """
    for_agents = {(one.method, one.path) for one in operations if one.for_agents}

    @app.before_request
    def check() -> None:
        if token is None and "Authorization" not in request.headers:
            return
        rule = request.url_rule
        if rule is not None and rule.rule in open_rules:
            return
        given = _bearer()
        if rule is not None and given is not None and given.startswith(TOKEN_MARK):
            g.cluster = cluster_of(context(), given)
            _check_agent(rule.rule, (request.method, rule.rule) in for_agents, g.cluster)
        elif token is not None:
            _let_in(token)


def _check_agent(rule: str, may: bool, cluster: str) -> None:
    named = (request.view_args or {}).get("name") if "/clusters/<name>" in rule else None
    if not may or (named is not None and named != cluster):
        raise Forbidden(
            f"The token of cluster '{cluster}' is not for this. It may sync and rotate its own cluster, "
            "and create and read executions."
        )


def _bearer() -> str | None:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    return given.strip() if given.strip() and scheme.lower() == "bearer" else None


def _let_in(token: str) -> None:
    given = _bearer()
    if given is None:
        raise Unauthenticated()
    if not hmac.compare_digest(given.encode(), token.encode()):
        raise Unauthenticated("The bearer token is not the one that this admin accepts. Check RAINBOW_TOKEN.")


def agents_cluster(name: str) -> str:
    """The cluster whose agent asks; an operator's token is not enough."""
    if g.get("cluster") != name:
        raise Unauthenticated(
            "Only the cluster's own agent may do this, with the token that `rainbow-agent register` gets."
        )
    return name
