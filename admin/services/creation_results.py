"""Results of creations: what each request comes to, whether it is decided from memory or in a transaction."""

from __future__ import annotations

from typing import NamedTuple

from admin.core.problems import Invalid
from admin.core.times import show_time
from admin.errors import ExecutionExists, RainbowError
from admin.services.run_requests import CreationRequest
from admin.store.creations import Creation
from admin.store.executions import Execution

Refusal = Invalid | RainbowError


class Created(NamedTuple):
    """An execution that was, or in a dry run would be, created; or the one that the same request created before."""

    execution: Execution
    is_new: bool
    warnings: list[dict[str, str]]


Result = Created | Refusal


class Draft(NamedTuple):
    """A creation that is not stored yet."""

    request: CreationRequest
    creation: Creation
    warnings: list[dict[str, str]]

    def created(self) -> Created:
        return Created(execution=self.creation.execution, is_new=True, warnings=self.warnings)

    def dry(self) -> Created:
        """What would be created; its random id would be another one."""
        return Created(execution=self.creation.execution._replace(uid=""), is_new=True, warnings=self.warnings)


def repeated(existing: Execution, request: CreationRequest) -> Result:
    """The execution that the same request created before; a refusal if the request was another."""
    if existing.digest == request.run.digest:
        return Created(execution=existing, is_new=False, warnings=[])
    since = show_time(existing.created_at)
    return ExecutionExists(
        f"An execution called '{existing.name}' exists in {existing.project}/{existing.domain} since {since}, for "
        f"another request; it is {existing.phase}. Nothing was started. Choose another name.",
        details=[{"field": "name", "reason": f"'{existing.name}' is taken."}],
    )
