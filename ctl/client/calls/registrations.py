"""
The calls of the client that are about workflows and launch plans, which are registered under versions.

    client.register("workflow", Identifier(project="p", domain="d", name="train", version="v1"), {"job": {…}})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from ctl.client.answers import Document
from ctl.client.calls.base import Calls, Reasons, WriteOptions, resource_path
from ctl.client.nouns import collection
from ctl.client.scopes import check_name

WORKFLOW = "workflow"
LAUNCH_PLAN = "launch_plan"

#: Stands for the version that was registered last.
LATEST = "latest"


@dataclass(frozen=True, kw_only=True)
class Identifier:
    """What a workflow or a launch plan is known by."""

    project: str
    domain: str
    name: str
    version: str

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Identifier:
        return cls(**{key: str(document[key]) for key in ("project", "domain", "name", "version")})

    def document(self) -> dict[str, str]:
        return {"project": self.project, "domain": self.domain, "name": self.name, "version": self.version}


class RegistrationCalls(Calls):
    """Part of the client; see `ctl.client.Client`. A noun is `workflow` or `launch_plan`."""

    def registered(
        self,
        noun: str,
        project: str,
        domain: str,
        name: str | None = None,
        *,
        workflow: str | None = None,
        search: str | None = None,
    ) -> Iterator[Document]:
        """
        The newest version of each name, or all versions of one, newest first, page by page.

        With a `workflow`, only launch plans of it; with `search`, only those whose names contain it.
        """
        nouns = collection(noun)
        path = resource_path(nouns, project=project, domain=domain, **({"name": name} if name is not None else {}))
        yield from self._pages(path, nouns, {"workflow": workflow, "search": search})

    def registration(self, noun: str, id: Identifier) -> Document:
        """One version; `latest` is the newest there is."""
        return self._read(resource_path(collection(noun), **id.document()))

    def active_launch_plans(self, project: str, domain: str) -> Iterator[Document]:
        """The active version of every launch plan that has one, page by page."""
        path = resource_path("active_launch_plans", project=project, domain=domain)
        yield from self._pages(path, "launch_plans")

    def active_launch_plan(self, project: str, domain: str, name: str) -> Document:
        """The active version of a launch plan; NotFound where none is."""
        return self._read(resource_path("active_launch_plans", project=project, domain=domain, name=name))

    def register(
        self,
        noun: str,
        id: Identifier,
        spec: Mapping[str, Any],
        *,
        is_active: bool = False,
        **options: Unpack[WriteOptions],
    ) -> Document:
        """
        Register one version, which can never be changed afterwards.

        `created` tells whether it is new; Conflict if that version is registered with another content. With
        `is_active` a launch plan is activated too. `message` and `claimed_by` are the reason and the author, kept with
        the version; an older admin keeps no author, and refuses a message.
        """
        for key, word in id.document().items():
            check_name(key, word)
        body = {"id": id.document(), "spec": dict(spec), **({"state": "ACTIVE"} if is_active else {})}
        return self._change_as_known("POST", collection(noun), body, options)

    def set_launch_plan_state(self, id: Identifier, state: str, **reasons: Unpack[Reasons]) -> Document:
        """
        Make a version of a launch plan ACTIVE, and every other one inactive; or make it INACTIVE.

        `message` and `claimed_by` are the reason and the author; an older admin keeps no author, and refuses a message.
        """
        path = resource_path("launch_plans", **id.document())
        return self._change_as_known("PUT", path, {"state": state}, reasons)
