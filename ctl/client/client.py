"""
`Client`: every call to one admin.

A kind is given as a `Kind`, or by its noun, name or number. Errors are those of `ctl.client.errors.ClientError`. What
is tried again after a failure, and what never is, stands at the top of `ctl.client.transport`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from ctl.client.answers import DEFINED, Attribute, Change, Document, Effective
from ctl.client.calls.changes import KindLike, dry, precondition, reasons
from ctl.client.calls.executions import ExecutionCalls
from ctl.client.calls.fleet import FleetCalls
from ctl.client.calls.registrations import RegistrationCalls
from ctl.client.errors import InvalidInput, NotFound
from ctl.client.kinds import Kind, built_in, by_word
from ctl.client.scopes import Scope, check_name
from ctl.client.transport import Transport
from ctl.client.words import did_you_mean

if TYPE_CHECKING:
    from ctl.client.contexts import Settings


class Client(FleetCalls, RegistrationCalls, ExecutionCalls):
    """Talks to one admin; a context manager that closes its connections."""

    def __init__(
        self,
        endpoint: str,
        *,
        token: str | None = None,
        ca_file: str | None = None,
        timeout: float = 30.0,
        retries: int = 2,
    ) -> None:
        """
        Parameters
        ----------
        endpoint
            `http://host:port`, `https://host:port`, `host:port` or `dns:///host:port`; see `ctl.client.endpoints`.
        token
            Sent as a bearer token.
        ca_file
            File with the certificate authorities to trust for https.
        timeout
            Seconds to wait for an answer, in each attempt.
        retries
            How often a failed read is tried again.
        """
        self._transport = Transport(endpoint, token=token, ca_file=ca_file, timeout=timeout, retries=retries)
        self._kinds: tuple[Kind, ...] | None = None

    @classmethod
    def from_environment(cls) -> Client:
        """A client for the context and the RAINBOW_* variables that rainbowctl would use."""
        from ctl.client.contexts import load_settings

        return cls.from_settings(load_settings({}))

    @classmethod
    def from_settings(cls, settings: Settings, *, timeout: float | None = None, retries: int = 2) -> Client:
        """A client for the settings of a command line (`ctl.client.contexts.Settings`)."""
        return cls(
            str(settings.endpoint.value),
            token=settings.token(),
            ca_file=settings.ca_file.value,
            timeout=settings.timeout_seconds if timeout is None else timeout,
            retries=retries,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    # Attributes

    def get_attribute(self, kind: KindLike, scope: Scope, exact: bool = False, *, at: int | None = None) -> Attribute:
        """
        The row of a kind at a scope, or the inherited value, which has no version; with `at`, as of that revision.

        Raises NotFound where there is neither, and with `exact` where there is no row.
        """
        if at is not None:
            return self._attribute_at(self.kind(kind), scope, exact, at)
        query = {"resource_type": self.kind(kind).name, **({"exact": "true"} if exact else {})}
        return Attribute.from_document(self._read(scope.path, query), scope)

    def _attribute_at(self, kind: Kind, scope: Scope, exact: bool, at: int) -> Attribute:
        filters: Document = {**scope.document(), "level": scope.level, "at": at}
        for row in self.list_attributes(kind, **filters):
            if row.scope == scope:
                return row
        found = None if exact else next(iter(self.effective(scope, kind, at=at)), None)
        if found is None or found.is_empty:
            raise NotFound(f"No {kind.noun} applied at {scope.describe()} then.", name="attribute_not_found")
        return Attribute.inherited(found, scope)

    def put_attribute(
        self,
        kind: KindLike,
        scope: Scope,
        payload: Mapping[str, Any],
        *,
        message: str | None = None,
        claimed_by: str | None = None,
        if_match: int | None = None,
        if_none_match: bool = False,
        dry_run: bool = False,
    ) -> Change:
        """
        Replace the whole payload at exactly this scope.

        Parameters
        ----------
        message, claimed_by
            Why, and who says so; kept with the revision.
        if_match
            Only if the row still has this version; Conflict otherwise.
        if_none_match
            Only if there is no row yet; Conflict otherwise.
        dry_run
            Check everything and answer as if, but write nothing.
        """
        wrapped = {"matching_attributes": {self.kind(kind).payload_key: payload}}
        body = {"attributes": wrapped, **reasons(message, claimed_by)}
        headers = precondition(if_match, if_none_match)
        return Change.from_document(
            self._transport.call("PUT", scope.path, query=dry(dry_run), body=body, headers=headers, is_safe=dry_run)
        )

    def patch_attribute(
        self,
        kind: KindLike,
        scope: Scope,
        *,
        set: Mapping[str, Any] | None = None,
        unset: Sequence[str] = (),
        inherit: Sequence[str] = (),
        message: str | None = None,
        claimed_by: str | None = None,
        if_match: int | None = None,
        if_none_match: bool = False,
        dry_run: bool = False,
    ) -> Change:
        """
        Change some leaves of the row at this scope and leave the others.

        Parameters
        ----------
        set
            A partial payload, nested.
        unset
            Leaves that shall have no value here, and inherit none.
        inherit
            Leaves this row shall no longer speak about. A row without leaves is removed.
        """
        body: Document = {"set": dict(set or {}), "unset": list(unset), "inherit": list(inherit)}
        body = {key: value for key, value in body.items() if value} | reasons(message, claimed_by)
        return Change.from_document(
            self._transport.call(
                "PATCH",
                scope.path,
                query={"resource_type": self.kind(kind).name, **dry(dry_run)},
                body=body,
                headers=precondition(if_match, if_none_match),
                is_safe=dry_run,
            )
        )

    def delete_attribute(
        self,
        kind: KindLike,
        scope: Scope,
        *,
        message: str | None = None,
        claimed_by: str | None = None,
        if_match: int | None = None,
        dry_run: bool = False,
    ) -> Change:
        """Delete the row at exactly this scope; `changed` tells whether there was one."""
        return Change.from_document(
            self._transport.call(
                "DELETE",
                scope.path,
                query={"resource_type": self.kind(kind).name, **dry(dry_run)},
                body=reasons(message, claimed_by) or None,
                headers=precondition(if_match),
                is_safe=dry_run,
            )
        )

    def list_attributes(
        self,
        kind: KindLike | None = None,
        *,
        level: str | None = None,
        project: str | None = None,
        domain: str | None = None,
        workflow: str | None = None,
        launch_plan: str | None = None,
        at: int | None = None,
        page_size: int = 500,
    ) -> Iterator[Attribute]:
        """
        Every stored row, page by page: of one kind or all, filtered by level and by scope keys.

        With `at`, the rows as they were at that revision.
        """
        filters = {
            "level": level,
            "project": project,
            "domain": domain,
            "workflow": workflow,
            "launch_plan": launch_plan,
            "at": at,
        }
        query: Document = {"resource_type": "all" if kind is None else self.kind(kind).name, "limit": page_size}
        query |= {key: value for key, value in filters.items() if value not in (None, "")}
        for entry in self._pages("matchable_attributes", "configurations", query):
            yield Attribute.from_entry(entry)

    def effective(self, scope: Scope, kind: KindLike | None = None, *, at: int | None = None) -> list[Effective]:
        """What one kind, or every kind, resolves to at a scope; with `at`, what it resolved to at that revision."""
        return [Effective.from_document(value) for value in self.effective_document(scope, kind, at=at)["values"]]

    def effective_document(self, scope: Scope, kind: KindLike | None = None, *, at: int | None = None) -> Document:
        """The answer behind `effective` as it came, with the revision it was resolved at."""
        query: Document = {**scope.document(), **({"resource_type": self.kind(kind).name} if kind is not None else {})}
        query |= {"at": at} if at is not None else {}
        return self._read("effective_attributes", query, holding="values")

    # Kinds and warnings

    def kinds(self) -> tuple[Kind, ...]:
        """Every kind the admin has, declared ones too."""
        return tuple(Kind.from_document(entry) for entry in self.kinds_document()["kinds"])

    def kinds_document(self) -> Document:
        """The answer behind `kinds` as it came."""
        return self._read("kinds", holding="kinds")

    def kind(self, word: KindLike) -> Kind:
        """The kind meant by a noun, name or number; the admin is asked only for what is not built in."""
        if isinstance(word, Kind):
            return word
        found = by_word(built_in(), str(word))
        if found is None:
            self._kinds = self._kinds or self.kinds()
            found = by_word(self._kinds, str(word))
        if found is None:
            nouns = [kind.noun for kind in self._kinds or ()]
            raise InvalidInput(f"There is no kind {str(word)!r}.{did_you_mean(str(word), nouns)}")
        return found

    def noun(self, name: str) -> str:
        """The word for rows of a kind, by the name answers give it: PROJECT is `project`, POOL is `pool`."""
        built = next((kind.noun for kind in built_in() if kind.name == name), None)
        if built is not None or name in DEFINED:
            return built or name.lower()
        self._kinds = self._kinds or self.kinds()
        # A kind that is declared no longer has a history all the same.
        return next((kind.noun for kind in self._kinds if kind.name == name), name.lower().replace("_", "-"))

    def warnings(self) -> list[Document]:
        """Every stored row that is still questionable, and why."""
        return list(self._read("warnings", holding="warnings")["warnings"])

    # Projects and domains

    def projects(self, state: str = "ACTIVE") -> Iterator[Document]:
        """Projects that are ACTIVE, ARCHIVED, or ALL of them, page by page."""
        yield from self._pages("projects", "projects", {"state": state, "limit": 500})

    def project(self, id: str) -> Document:
        """One project, archived or not."""
        return self._read(_project_path(id))

    def create_project(
        self, id: str, *, message: str | None = None, claimed_by: str | None = None, **fields: Any
    ) -> Document:
        """Create a project; fields are name, description and labels (`{"values": {…}}`)."""
        check_name("project", id)
        body = {"project": {"id": id, **fields}, **reasons(message, claimed_by)}
        return self._transport.call("POST", "projects", body=body)

    def update_project(
        self,
        id: str,
        *,
        message: str | None = None,
        claimed_by: str | None = None,
        if_match: int | None = None,
        **fields: Any,
    ) -> Document:
        """Change some of name, description, labels and state; the others stay. The rest is as in `put_attribute`."""
        headers = precondition(if_match)
        body = {**fields, **reasons(message, claimed_by)}
        return self._transport.call("PATCH", _project_path(id), body=body, headers=headers)

    def domains(self) -> list[Document]:
        """The domains every project has."""
        return list(self._read("domains", holding="domains")["domains"])

    def version(self) -> Document:
        """The version of the admin."""
        return self._read("version")


def _project_path(id: str) -> str:
    check_name("project", id)
    return f"projects/{quote(id, safe='')}"
