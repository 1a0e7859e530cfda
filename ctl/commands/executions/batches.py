"""Batches: requests for many executions as they are sent, and the outcome of each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ctl.client.answers import Document
from ctl.client.errors import ClientError, detail_line
from ctl.client.transport import refusal
from ctl.files.execution_requests import Request

#: A batch is no larger than this: the first limit makes its answer come soon, the second is the admin's.
_MOST_REQUESTS = 100
_MOST_BYTES = 1024 * 1024

CREATED, WOULD_BE, EXISTS, FAILED = "created", "would be created", "exists", "failed"
#: Of those that got no answer of their own.
UNKNOWN, NOT_CREATED = "unknown", "not created"


def batches(
    requests: Sequence[Request], *, most_requests: int = _MOST_REQUESTS, most_bytes: int = _MOST_BYTES
) -> Iterator[list[Request]]:
    """The requests in their order; the same requests always make the same batches."""
    batch: list[Request] = []
    size = 0
    for request in requests:
        more = len(json.dumps(request.body)) + 2
        if batch and (len(batch) == most_requests or size + more > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(request)
        size += more
    if batch:
        yield batch


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one request."""

    request: Request
    result: str
    answer: Document = field(default_factory=dict)  #: the admin's, about this one
    error: ClientError | None = None

    @classmethod
    def from_answer(cls, request: Request, answer: Document, *, is_new: bool, dry_run: bool) -> Outcome:
        """From an entry of `results`; `is_new` tells that only this very request can have created it."""
        if "error" in answer:
            refused = answer["error"]
            return cls.failed(request, refusal(int(refused.get("status") or 500), refused))
        created = WOULD_BE if dry_run else CREATED
        return cls(request=request, result=created if is_new or answer.get("created") else EXISTS, answer=answer)

    @classmethod
    def failed(cls, request: Request, error: ClientError) -> Outcome:
        return cls(request=request, result=FAILED, error=request.explain(error))

    @property
    def id(self) -> dict[str, str]:
        """Its id, as far as that is known."""
        source = self.answer.get("id") or self.request.body
        return {key: str(source.get(key) or "") for key in ("project", "domain", "name")}

    @property
    def is_there(self) -> bool:
        """Whether the execution exists now."""
        return self.result in {CREATED, EXISTS}

    def problems(self) -> list[dict[str, Any]]:
        """Why it failed, each time with the place in the file."""
        if self.error is None:
            return []
        if self.error.details and all("position" in detail for detail in self.error.details):
            return self.error.details
        return [{"position": self.request.place, "reason": self.error.in_one_line()}]

    def why(self) -> str:
        """Why it waits, or why it failed, for a cell of a table."""
        reason = str((self.answer.get("reason") or {}).get("code") or "")
        return "; ".join(map(detail_line, self.problems())) or reason

    def document(self) -> dict[str, Any]:
        """As `-o json` prints it."""
        start: Document = {"position": self.request.place, "result": self.result}
        if self.error is None:
            return {**start, **({"id": self.id} if self.id["name"] else {}), **self.answer}
        return {**start, **self.error.document(), **({"id": self.id} if self.id["name"] else {})}
