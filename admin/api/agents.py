"""Agents over HTTP: registration, tokens, and the one call that does everything else."""

from __future__ import annotations

from flask import Response, current_app, request
from msgspec import UNSET

from admin.api.current import caller, context, origin
from admin.api.descriptions import MOST_BYTES as MOST_DESCRIPTION_BYTES
from admin.api.operations import Operations, respond
from admin.core.permissions import OPEN, OWN_AGENT
from admin.messages.agents import SyncAnswer, SyncBody
from admin.messages.namespace_exchanges import NamespacesAnswer, NamespacesBody
from admin.messages.requests import Fields
from admin.messages.tokens import (
    IssuedAnswer,
    RegisterClusterBody,
    RevokedAnswer,
    RotateBody,
    TokenAnswer,
    TokensAnswer,
)
from admin.services import agents, audit
from admin.services.namespace_exchanges import exchange_namespaces
from admin.services.syncs import sync
from admin.services.tokens import Issued
from admin.services.wrong_attempts import FailureLimiter

operations = Operations("agents")

MOST_BYTES = 32 * 1024 * 1024


def _issued(issued: Issued) -> Response:
    audit.note_token_created(context(), origin(), caller().identity, issued)
    response = respond(IssuedAnswer.from_attributes(issued))
    response.headers["Cache-Control"] = "no-store"
    return response


@operations.add(
    "POST",
    "/clusters/<name>/register",
    body=RegisterClusterBody,
    answer=IssuedAnswer,
    errors=(400, 401, 409, 429),
    permission=OPEN,
    if_too_large="Register without `description`, and send it with the token that you get: "
    f"PUT /api/v1/clusters/{{name}}/description takes up to {MOST_DESCRIPTION_BYTES >> 20} MiB.",
)
def register_cluster(name: str, body: Fields) -> Response:
    """Register a cluster's agent and get its token."""
    limiter: FailureLimiter = current_app.extensions["rainbow-registration-limiter"]
    address = request.remote_addr or ""
    sent = {field: body.get(field) for field in ("report", "description")}
    return _issued(agents.register(context(), limiter, address, name, body["secret"], **sent))


@operations.add("GET", "/clusters/<name>/tokens", permission="cluster_tokens.read", errors=(404,))
def list_cluster_tokens(name: str) -> TokensAnswer:
    """List a cluster's tokens."""
    now = context().clock()
    return TokensAnswer(tokens=[TokenAnswer.from_token(token, now) for token in agents.list_tokens(context(), name)])


@operations.add(
    "POST",
    "/clusters/<name>/tokens",
    body=RotateBody,
    body_optional=True,
    answer=IssuedAnswer,
    errors=(404,),
    permission="cluster_tokens.write",
    for_agents=True,
)
def rotate_cluster_token(name: str, body: Fields) -> Response:
    """Make a new token for a cluster; the older ones end after an overlap."""
    return _issued(agents.rotate(context(), name, body["overlap"].total_seconds()))


@operations.add("DELETE", "/clusters/<name>/tokens/<prefix>", permission="cluster_tokens.write", errors=(404,))
def revoke_cluster_token(name: str, prefix: str) -> RevokedAnswer:
    """Revoke a token at once."""
    is_changed = agents.revoke(context(), name, prefix)
    if is_changed:
        audit.note_token_revoked(context(), origin(), caller().identity, audit.cluster_token(name, prefix))
    return RevokedAnswer(prefix=prefix, changed=is_changed)


@operations.add(
    "POST",
    "/clusters/<name>/cluster_resources",
    body=NamespacesBody,
    errors=(403,),
    permission=OWN_AGENT,
    for_agents=True,
    most_bytes=MOST_BYTES,
)
def exchange_cluster_resources(name: str, body: NamespacesBody) -> NamespacesAnswer:
    """An agent reports of the namespaces that it makes, and gets what has changed."""
    caller().check_agent_of(name)
    known = None if body.known is UNSET else body.known
    reports = [report.report() for report in body.reports]
    return NamespacesAnswer.from_exchange(exchange_namespaces(context(), name, body.digest, known, reports))


@operations.add(
    "POST",
    "/clusters/<name>/sync",
    body=SyncBody,
    errors=(403, 409),
    permission=OWN_AGENT,
    for_agents=True,
    most_bytes=MOST_BYTES,
)
def sync_cluster(name: str, body: SyncBody) -> SyncAnswer:
    """An agent's one call: report, and get leases, cancels and questions."""
    caller().check_agent_of(name)
    return SyncAnswer.from_answer(sync(context(), body.sync(name)), context().settings.agents)
