"""The calls of the client that are about projects and domains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ctl.client.answers import Document
from ctl.client.calls.base import Calls, resource_path
from ctl.client.scopes import check_name


class ProjectCalls(Calls):
    """Part of the client; see `ctl.client.Client`."""

    def projects(self, state: str = "ACTIVE", *, provenance: bool = False) -> Iterator[Document]:
        """
        Projects that are ACTIVE, ARCHIVED, or ALL of them, page by page.

        With `provenance` each has the revisions that made it as it is, unless the admin is older.
        """
        query = {"state": state, "provenance": "true" if provenance else None}
        yield from self._pages("projects", "projects", query, optional=["provenance"])

    def project(self, id: str, *, provenance: bool = False) -> Document:
        """One project, archived or not; `provenance` is as in `projects`."""
        query = {"provenance": "true"} if provenance else {}
        return self._read_as_known(resource_path("projects", project=id), query, "provenance")

    def create_project(
        self,
        id: str,
        *,
        message: str | None = None,
        claimed_by: str | None = None,
        dry_run: bool = False,
        **fields: Any,
    ) -> Document:
        """Create a project; fields are name, description and labels (`{"values": {…}}`)."""
        check_name("project", id)
        body = {"project": {"id": id, **fields}}
        return self._change("POST", "projects", body, message=message, claimed_by=claimed_by, dry_run=dry_run)

    def update_project(
        self,
        id: str,
        *,
        message: str | None = None,
        claimed_by: str | None = None,
        if_match: int | None = None,
        dry_run: bool = False,
        **fields: Any,
    ) -> Document:
        """Change some of name, description, labels and state; the others stay. The rest is as in `put_attribute`."""
        path = resource_path("projects", project=id)
        return self._change(
            "PATCH", path, fields, message=message, claimed_by=claimed_by, if_match=if_match, dry_run=dry_run
        )

    def domains(self) -> list[Document]:
        """The domains every project has."""
        return list(self._read("domains", holding="domains")["domains"])
