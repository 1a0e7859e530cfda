"""Creations over HTTP: one execution or many, anew or once more."""

from __future__ import annotations

from functools import partial
from itertools import islice

from flask import request

from admin.api.current import caller, context, origin
from admin.api.failures import note_refusal, translate
from admin.api.operations import Operations
from admin.core.problems import invalid
from admin.errors import RainbowError
from admin.messages.creations import CreatedAnswer, CreationBody, ManyCreatedAnswer, RepeatBody
from admin.messages.reading import or_none
from admin.messages.requests import Fields, WriteQuery
from admin.services import audit, creations, executions
from admin.services.creation_results import Refusal
from admin.services.run_requests import CreationRequest

operations = Operations("executions")
#: Refusals of one request for many that the log names.
_MOST_NOTED = 10


def _create(request: CreationRequest, *, dry_run: bool) -> CreatedAnswer:
    created = creations.create_execution(
        context(), request, creator=caller().identity, dry_run=dry_run, idempotency_key=_idempotency_key()
    )
    return CreatedAnswer.from_created(created, dry_run=dry_run)


def _create_many(read: list[CreationRequest | Refusal], *, dry_run: bool) -> ManyCreatedAnswer:
    requests = {place: item for place, item in enumerate(read) if isinstance(item, CreationRequest)}
    answers = iter(
        creations.create_executions(
            context(),
            requests.values(),
            creator=caller().identity,
            dry_run=dry_run,
            idempotency_key=_idempotency_key(),
            places=requests,
        )
    )
    outcomes = [next(answers) if isinstance(item, CreationRequest) else item for item in read]
    refusals = (outcome for outcome in outcomes if isinstance(outcome, Exception))
    for refusal in islice(refusals, _MOST_NOTED):
        note_refusal(translate(refusal, caller().request_id), caller().request_id, request.method)
    for outcome in outcomes:
        if isinstance(outcome, RainbowError) and outcome.is_denial:
            audit.note_denied(context(), origin(), caller().identity, outcome)
    return ManyCreatedAnswer.from_outcomes(outcomes, dry_run=dry_run)


def _idempotency_key() -> str | None:
    key = request.headers.get("Idempotency-Key")
    if key is not None and not 1 <= len(key) <= 255:
        raise invalid("Idempotency-Key", "give 1 to 255 characters.")
    return key


_add = partial(
    operations.add,
    "POST",
    query=WriteQuery,
    errors=(404, 409),
    headers=("Idempotency-Key",),
    permission="executions.create",
    for_agents=True,
    most_bytes=4 * 1024 * 1024,
)


@_add("/executions", body=CreationBody)
def create_execution(query: Fields, body: CreationBody) -> CreatedAnswer | ManyCreatedAnswer:
    """Create an execution, or many."""
    requests = body.requests()
    if requests is None:
        return _create(body.request(), dry_run=query["dry_run"])
    return _create_many(requests, dry_run=query["dry_run"])


def _repeat(word: str, mode: str, summary: str) -> None:
    @_add(f"/executions/{word}", id=f"{word}_execution", summary=summary, body=RepeatBody)
    def repeat(query: Fields, body: RepeatBody) -> CreatedAnswer:
        request = executions.repeat_request(
            context(),
            body.id.id(),
            mode=mode,
            name=or_none(body.name) or None,
            changes=body.changes(),
            claimed_by=or_none(body.claimed_by) or None,
        )
        return _create(request, dry_run=query["dry_run"])


_repeat("relaunch", "RELAUNCH", "Run an execution once more")
_repeat("recover", "RECOVERED", "Run an execution that did not succeed once more")
