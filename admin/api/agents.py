"""Agents over HTTP: registration, tokens, and the one call that does everything else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from flask import Response, current_app

from admin.api.current import caller, context
from admin.api.operations import Operations, respond
from admin.core.problems import Invalid, Problem
from admin.core.quantities import parse_duration
from admin.messages.agents import (
    DrainBody,
    IssuedAnswer,
    RegisterClusterBody,
    RevokedAnswer,
    RotateBody,
    SyncAnswer,
    SyncBody,
    TokenAnswer,
    TokensAnswer,
)
from admin.messages.fleet import ClusterAnswer, SwitchBody, SwitchedAnswer
from admin.messages.requests import (
    RequestSchema,
)
from admin.services import agents, fleet
from admin.services.agents import Issued, RegistrationLimiter
from admin.services.syncs import sync

operations = Operations("agents")

MOST_BYTES = 32 * 1024 * 1024
_MOST_SECONDS = 366 * 24 * 3600


def _issued(issued: Issued) -> Response:
    response = respond(IssuedAnswer.from_issued(issued))
    response.headers["Cache-Control"] = "no-store"
    return response


@operations.add(
    "POST",
    "/clusters/<name>/register",
    summary="Register a cluster's agent and get its token",
    body=RegisterClusterBody,
    answer=IssuedAnswer,
    errors=(400, 401, 409, 429),
    is_open=True,
)
def register(name: str, body: dict[str, Any]) -> Response:
    limiter: RegistrationLimiter = current_app.extensions["rainbow-registration-limiter"]
    return _issued(agents.register(context(), limiter, name, body["secret"], body.get("description")))


@operations.add("GET", "/clusters/<name>/tokens", summary="List a cluster's tokens", answer=TokensAnswer, errors=(404,))
def list_tokens(name: str) -> TokensAnswer:
    now = context().clock()
    return TokensAnswer(tokens=[TokenAnswer.from_token(token, now) for token in agents.list_tokens(context(), name)])


@operations.add(
    "POST",
    "/clusters/<name>/tokens",
    summary="Make a new token for a cluster; the older ones end after an overlap",
    body=RotateBody,
    body_optional=True,
    answer=IssuedAnswer,
    errors=(400, 404),
    for_agents=True,
)
def rotate(name: str, body: dict[str, Any]) -> Response:
    return _issued(agents.rotate(context(), name, _seconds(body["overlap"], "overlap")))


def _seconds(text: str, field: str) -> float:
    if text in ("0", "0s"):
        return 0.0
    try:
        seconds = float(parse_duration(text))
    except ValueError as error:
        raise Invalid(Problem(field=field, reason=f"'{text[:60]}' {error}.")) from None
    if seconds > _MOST_SECONDS:
        raise Invalid(Problem(field=field, reason=f"'{text[:60]}' is longer than a year."))
    return seconds


@operations.add(
    "DELETE",
    "/clusters/<name>/tokens/<prefix>",
    summary="Revoke a token at once",
    answer=RevokedAnswer,
    errors=(404,),
)
def revoke(name: str, prefix: str) -> RevokedAnswer:
    return RevokedAnswer(prefix=prefix, changed=agents.revoke(context(), name, prefix))


def _switch(word: str, summary: str, body_schema: type[RequestSchema]) -> None:
    @operations.add(
        "POST",
        f"/clusters/<name>/{word}",
        summary=summary,
        body=body_schema,
        body_optional=True,
        answer=SwitchedAnswer,
        errors=(400, 404),
    )
    def switch(name: str, body: dict[str, Any]) -> SwitchedAnswer:
        reason, claimed_by = body.get("reason"), body.get("claimed_by")
        if word == "admit":
            view, is_change = fleet.admit(context(), name, reason, claimed_by)
        else:
            deadline = None
            if "deadline" in body:
                deadline = context().clock() + timedelta(seconds=_seconds(body["deadline"], "deadline"))
            view, is_change = fleet.set_draining(context(), name, word == "drain", deadline, reason, claimed_by)
        return SwitchedAnswer(cluster=ClusterAnswer.from_view(view), changed=is_change)


_switch("admit", "Let a new cluster in that registered and waits", SwitchBody)
_switch("drain", "Give a cluster no new work, and move what it has", DrainBody)
_switch("undrain", "Give a drained cluster work again", SwitchBody)


@operations.add(
    "POST",
    "/clusters/<name>/sync",
    summary="An agent's one call: report, and get leases, cancels and questions",
    body=SyncBody,
    answer=SyncAnswer,
    errors=(400, 401, 403, 409),
    for_agents=True,
    most_bytes=MOST_BYTES,
)
def sync_cluster(name: str, body: SyncBody) -> SyncAnswer:
    caller().check_agent_of(name)
    answer = sync(context(), body.sync(name))
    return SyncAnswer.from_answer(answer, context().settings.agents)
