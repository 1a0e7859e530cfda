"""`create execution` from a file of several documents: sent in batches, each execution answered for itself."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

from ctl.cli.output import text_cells
from ctl.cli.progress import counted
from ctl.cli.session import Session, local_user
from ctl.cli.watching import Backoff
from ctl.client.answers import Document, warning_text
from ctl.client.errors import (
    AlreadyCreated,
    ClientError,
    Interrupted,
    InvalidInput,
    RainbowError,
    ServerError,
    Unreachable,
    common_exit_code,
)
from ctl.client.executions import ExecutionId
from ctl.client.words import count, listed
from ctl.commands.executions.batches import (
    CREATED,
    EXISTS,
    FAILED,
    NOT_CREATED,
    UNKNOWN,
    WOULD_BE,
    Outcome,
    batches,
)
from ctl.files.execution_requests import Request

#: Executions that a warning names before it only counts them.
_MOST_NAMED = 3
#: How long to try again after an admin that answered before stops answering.
_BACKOFF_SECONDS = 60.0


def create_many(session: Session, requests: Sequence[Request], flags: Mapping[str, Any]) -> None:
    """Create executions, show the outcome of each, and fail if one failed."""
    for key in ("watch", "logs"):
        if flags[key]:
            raise InvalidInput(
                f"--{key} follows one execution, and {requests[0].files[0].name} holds {len(requests)}: leave it out."
            )
    sending = _Sending(session, _launchable(session, requests), flags)
    ended = sending.run()
    outcomes = sending.outcomes
    if ended is not None and all(outcome.result == NOT_CREATED for outcome in outcomes):
        raise ended
    if ended is None:
        _note(session, outcomes, sending)
    _tell_warnings(session, outcomes)
    _show(session, outcomes)
    if ended is not None:
        raise ended if flags["dry_run"] else _unsettled(ended, outcomes, sending.key)
    _check_failures(session, outcomes, sending.key)
    if all(outcome.result == EXISTS for outcome in outcomes) and not sending.was_resent and not flags["dry_run"]:
        raise AlreadyCreated(
            f"All {len(outcomes)} executions were created earlier by the same requests. Nothing was started."
        )


def _launchable(session: Session, requests: Sequence[Request]) -> list[Request]:
    """The requests; where a document's `workflow` is no launch plan, for the workflow of that name."""
    is_registered: dict[tuple[str, str, str], bool] = {}
    launchable = []
    for request in requests:
        if not request.may_mean_workflow:
            launchable.append(request)
            continue
        launched = request.launched
        if launched not in is_registered:
            is_registered[launched] = session.client.has_launch_plan(*launched)
            if not is_registered[launched]:
                name = launched[2]
                session.printer.note(f"There is no launch plan {name}: the workflow {name} is used instead.")
        launchable.append(request if is_registered[launched] else request.of_workflow())
    return launchable


class _Sending:
    """Sends batch after batch. A batch has a key of its own, so that sending it again creates nothing twice."""

    def __init__(self, session: Session, requests: Sequence[Request], flags: Mapping[str, Any]) -> None:
        self.outcomes: list[Outcome] = []
        self.was_resent = False  #: whether an answer got lost, so that what existed may have been created by it
        self._may_have_arrived = False  #: whether the batch at hand did, without an answer
        self.key: str = flags["idempotency_key"] or os.urandom(16).hex()
        self._is_new_key = not flags["idempotency_key"]
        self._session = session
        self._requests = requests
        self.dry_run: bool = flags["dry_run"]

    def run(self) -> RainbowError | None:
        """Send all batches; returns the error that ended it early, if there was one."""
        number = len(self._requests)
        text = f"{'Checking' if self.dry_run else 'Creating'} {count(number, 'execution')}"
        with counted(self._session.printer, text, number) as advance:
            for place, batch in enumerate(batches(self._requests), start=1):
                try:
                    self._take(batch, self._answer(batch, f"{self.key}-{place}"))
                except (ClientError, KeyboardInterrupt) as error:
                    return self._end(batch, error)
                advance(len(batch))
        return None

    def _answer(self, batch: Sequence[Request], key: str) -> Document:
        bodies = [request.body for request in batch]
        backoff = Backoff(self._session)
        deadline = self._session.monotonic() + _BACKOFF_SECONDS
        self._may_have_arrived = False
        while True:
            try:
                answer = self._session.client.create_executions(
                    bodies, key=key, claimed_by=local_user(), dry_run=self.dry_run
                )
            except Unreachable as error:
                self._may_have_arrived |= not _was_never_sent(error)
                left = deadline - self._session.monotonic()
                # An admin that never answered is not waited for.
                if not self.outcomes or left <= 0:
                    raise
                error.message = _without_advice(error)
                backoff.pause_after(error, left, "Retrying: nothing is created twice.")
                continue
            backoff.answered()
            self.was_resent |= self._may_have_arrived
            return answer

    def _take(self, batch: Sequence[Request], answer: Document) -> None:
        self.was_resent |= bool(answer.get("resent"))
        for request, result in zip(batch, answer["results"], strict=True):
            is_new = self._is_new_key and "name" not in request.body
            self.outcomes.append(Outcome.from_answer(request, result, is_new=is_new, dry_run=self.dry_run))

    def _end(self, batch: Sequence[Request], error: ClientError | KeyboardInterrupt) -> RainbowError:
        """Record the outcome of requests that got no answer."""
        is_open = self._may_have_arrived or not (_was_never_sent(error) or _is_refusal(error))
        is_open &= not self.dry_run
        self.outcomes += [Outcome(request=request, result=UNKNOWN if is_open else NOT_CREATED) for request in batch]
        rest = self._requests[len(self.outcomes) :]
        self.outcomes += [Outcome(request=request, result=NOT_CREATED) for request in rest]
        return error if isinstance(error, ClientError) else Interrupted()


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, ClientError) and not isinstance(error, (Unreachable, ServerError))


def _was_never_sent(error: BaseException) -> bool:
    return isinstance(error, Unreachable) and error.name == "unreachable" and error.status is None


def _unsettled(error: RainbowError, outcomes: Sequence[Outcome], key: str) -> RainbowError:
    """The error that ended it early, with what is left to do and how to continue."""
    numbers = Counter(outcome.result for outcome in outcomes)
    left = [f"{numbers[UNKNOWN]} may have been created"] if numbers[UNKNOWN] else []
    left += [f"{numbers[NOT_CREATED]} were not"] if numbers[NOT_CREATED] else []
    error.message = f"{_without_advice(error)} Of {len(outcomes)} executions {listed(left)}. {_run_again(key)}"
    return error


def _without_advice(error: RainbowError) -> str:
    """The message of an unanswered request, which says to look before repeating it: that is not needed here."""
    return error.message.split(" It may have been")[0]


def _run_again(key: str) -> str:
    return f"Run the same command again with --idempotencyKey {quote(key)}: nothing is created twice."


def _check_failures(session: Session, outcomes: Sequence[Outcome], key: str) -> None:
    failures = [outcome for outcome in outcomes if outcome.error is not None]
    if not failures:
        return
    message = f"{len(failures)} of {len(outcomes)} executions could not be created."
    if any(outcome.result == CREATED and "name" not in outcome.request.body for outcome in outcomes):
        message += f" Correct them in the file. {_run_again(key)}"
    # A table and a document show the reason of each failure.
    is_silent = session.printer.format == "name"
    details = [problem for outcome in failures for problem in outcome.problems()] if is_silent else []
    error = RainbowError(message, details=details)
    error.exit_code = common_exit_code(outcome.error for outcome in failures if outcome.error)
    raise error


def _tell_warnings(session: Session, outcomes: Sequence[Outcome]) -> None:
    """Each warning once, with the executions that it is about."""
    names: dict[str, list[str]] = {}
    for outcome in outcomes:
        for warning in outcome.answer.get("warnings") or []:
            names.setdefault(warning_text(warning), []).append(outcome.id["name"] or outcome.request.place)
    for text, concerned in names.items():
        first = concerned[:_MOST_NAMED]
        more = [f"{len(concerned) - len(first)} more"] if len(concerned) > len(first) else []
        session.printer.warning(f"{listed([*first, *more])}: {text}")


def _show(session: Session, outcomes: Sequence[Outcome]) -> None:
    printer = session.printer
    names = (ExecutionId.from_document(outcome.id).resource for outcome in outcomes if outcome.is_there)
    if printer.machine_output(names, [outcome.document() for outcome in outcomes]):
        return
    places = {(outcome.id["project"], outcome.id["domain"]) for outcome in outcomes}
    keys = ["project", "domain", "name"] if len(places) > 1 else ["name"]
    rows = [
        [*text_cells(outcome.id, *keys), *text_cells(outcome.answer, "cluster", "phase"), outcome.result, outcome.why()]
        for outcome in outcomes
    ]
    printer.table([*(key.upper() for key in keys), "CLUSTER", "PHASE", "RESULT", "REASON"], rows)


def _note(session: Session, outcomes: Sequence[Outcome], sending: _Sending) -> None:
    if not session.printer.is_table:
        return
    numbers = Counter(outcome.result for outcome in outcomes)
    words = {CREATED: "created", WOULD_BE: "would be created", EXISTS: "existed already", FAILED: "failed"}
    summary = ", ".join(f"{numbers[result]} {word}" for result, word in words.items() if numbers[result])
    start = "Dry run: nothing was created. " if sending.dry_run else ""
    session.printer.note(f"{start}{count(len(outcomes), 'execution')}: {summary}.")
    if sending.was_resent and numbers[EXISTS]:
        session.printer.note(
            "An answer was lost and its batch sent again: this command may have created some of those that existed."
        )
