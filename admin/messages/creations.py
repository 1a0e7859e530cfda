"""What creations are asked for with: one execution or many, anew or once more."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from admin.core.executions.spec import read_spec
from admin.core.jobs.literals import plain_values
from admin.core.json_text import json_text
from admin.core.memos import Memo
from admin.core.problems import Invalid, Problem
from admin.messages.reading import AnyJson, Body, Name, NoOrg, Text255, Unread, or_none, present_fields, read
from admin.services.creations import Refusal
from admin.services.run_requests import MAX_CACHED_BYTES, CreationRequest, check_name, read_request
from admin.store.executions import ExecutionId

MOST_AT_ONCE = 1000


class IdBody(Body):
    project: Name
    domain: Name
    name: Name

    def id(self) -> ExecutionId:
        return ExecutionId(project=self.project, domain=self.domain, name=self.name)


class RequestBody(Body):
    """What to run, in Flyte's shape; the core checks the spec and the inputs."""

    project: Name
    domain: Name
    name: Text255 | UnsetType = UNSET
    inputs: Unread | UnsetType = UNSET
    spec: Unread
    org: NoOrg | UnsetType = UNSET

    def request(self) -> CreationRequest:
        """What the body asks for, in its normal form."""
        name = or_none(self.name) or None
        text = json_text([self.project, self.domain, self.spec, or_none(self.inputs)])
        if len(text) > MAX_CACHED_BYTES:
            return self._read(name)
        known = _requests.find(text, lambda: self._read(name))
        check_name(name)
        return CreationRequest(known.run, name)

    def _read(self, name: str | None) -> CreationRequest:
        return read_request(
            project=self.project,
            domain=self.domain,
            name=name,
            spec=self.spec,
            inputs=or_none(self.inputs),
            read=_read_spec,
        )


#: Requests that were read before, for they are often alike but for their names; and specs, where inputs differ too.
_requests: Memo[CreationRequest] = Memo(1024)
_specs: Memo[dict[str, Any]] = Memo(1024)


def _read_spec(spec: Any) -> dict[str, Any]:
    text = json_text(spec)
    return read_spec(spec) if len(text) > MAX_CACHED_BYTES else _specs.find(text, lambda: read_spec(spec))


class CreationBody(Body):
    """One execution, or many."""

    project: Name | UnsetType = UNSET
    domain: Name | UnsetType = UNSET
    name: Text255 | UnsetType = UNSET
    inputs: Unread | UnsetType = UNSET
    spec: Unread | UnsetType = UNSET
    org: NoOrg | UnsetType = UNSET
    executions: (
        Annotated[
            list[Any],
            Meta(
                min_length=1,
                max_length=MOST_AT_ONCE,
                description=f"Up to {MOST_AT_ONCE} bodies as for one, in place of all other fields.",
                extra={"error": f"give 1 to {MOST_AT_ONCE} of them in one request."},
            ),
        ]
        | UnsetType
    ) = UNSET

    def request(self) -> CreationRequest:
        """The one execution that the body asks for; Invalid where something is missing."""
        return read(RequestBody, present_fields(self)).request()

    def requests(self) -> list[CreationRequest | Refusal] | None:
        """The many that the body asks for, each read for itself; None where it asks for one."""
        if isinstance(self.executions, UnsetType):
            return None
        for name in present_fields(self).keys() - {"executions"}:
            raise Invalid(Problem(field=name, reason="stands beside executions; put it into each of them."))
        return [_read_request(document) for document in self.executions]


def _read_request(document: Any) -> CreationRequest | Refusal:
    if not isinstance(document, dict):
        return Invalid(Problem(field="", reason="is not a mapping: give one with project, domain and spec."))
    try:
        return read(RequestBody, document).request()
    except Invalid as refusal:
        return refusal


class RepeatBody(Body):
    """An execution to run once more, and what is to differ; the core checks the latter as parts of a spec."""

    id: IdBody
    name: Text255 | UnsetType = UNSET
    overwrite_cache: Annotated[AnyJson, Meta(extra_json_schema={"type": "boolean"})] | UnsetType = UNSET
    cluster: Annotated[AnyJson, Meta(extra_json_schema={"type": "string"})] | UnsetType = UNSET
    cluster_assignment: Unread | UnsetType = UNSET
    execution_cluster_label: Unread | UnsetType = UNSET
    inputs: Unread | UnsetType = UNSET

    def changes(self) -> dict[str, Any]:
        """What is to differ, checked."""
        parts = {name: value for name, value in present_fields(self).items() if name not in ("id", "name", "inputs")}
        checked = read_spec({**parts, "job": {"command": ["true"]}}, ())
        changes: dict[str, Any] = {name: checked[name] for name in parts if name in checked}
        if self.inputs is not UNSET:
            problems: list[Problem] = []
            changes["inputs"] = plain_values(self.inputs, ("inputs",), problems)
            if problems:
                raise Invalid(*problems)
        return changes
