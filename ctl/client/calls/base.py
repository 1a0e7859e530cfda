"""What all calls of the client share: how answers are read, page by page where there are many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict
from urllib.parse import quote

from ctl.client.answers import Document
from ctl.client.errors import InvalidRequest, NotFound, ServerError
from ctl.client.scopes import check_name
from ctl.client.transport import Transport

#: How many entries a page has, unless a call says otherwise.
PAGE = 500

#: The name of the error for a path that an admin does not have.
PATH_NOT_FOUND = "path_not_found"


class Reasons(TypedDict, total=False):
    """Why a change is made, and by whom; kept with the revision."""

    message: str | None
    claimed_by: str | None


class WriteOptions(Reasons, total=False):
    """What every change may say beside its content."""

    dry_run: bool  #: check everything and answer as usual, but write nothing


class VersionOptions(WriteOptions, total=False):
    """The same for a row that may have to be as it was read."""

    if_match: int | None  #: Conflict unless the row still has this version


class PutOptions(VersionOptions, total=False):
    """The same for a row that may have to be new."""

    if_none_match: bool  #: Conflict unless there is no row yet


class Calls:
    """Part of the client; see `ctl.client.Client`."""

    _transport: Transport

    @property
    def endpoint(self) -> str:
        """The endpoint in use, with its protocol."""
        return self._transport.url

    def _read(
        self,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        holding: str | None = None,
        more_seconds: float = 0.0,
    ) -> Document:
        answer = self._transport.call("GET", path, query=query, is_safe=True, more_seconds=more_seconds)
        return answer if holding is None else self._require_list(answer, holding)

    def _write(
        self,
        method: str,
        path: str,
        body: Document | None = None,
        *,
        dry_run: bool = False,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        more_seconds: float = 0.0,
    ) -> Document:
        """The answer to a change; only a dry run, which changes nothing, may be sent twice."""
        query = {**(query or {}), **({"dry_run": "true"} if dry_run else {})}
        return self._transport.call(
            method, path, query=query, body=body, headers=headers, is_safe=dry_run, more_seconds=more_seconds
        )

    def _change_as_known(self, method: str, path: str, body: Document, options: Reasons) -> Document:
        """The answer to a change, sent without the author where an older admin refuses one."""
        try:
            return self._change(method, path, body, **options)
        except InvalidRequest as error:
            known = without_refused({**options}, ["claimed_by"], error)
            return self._change(method, path, body, **known)

    def _change(
        self,
        method: str,
        path: str,
        body: Document,
        *,
        message: str | None = None,
        claimed_by: str | None = None,
        dry_run: bool = False,
        if_match: int | None = None,
        if_none_match: bool = False,
        query: Mapping[str, Any] | None = None,
        more_seconds: float = 0.0,
    ) -> Document:
        """The answer to a change with the options of one of the types above; each is named, to refuse misspelt ones."""
        reasons = {key: text for key, text in (("message", message), ("claimed_by", claimed_by)) if text}
        headers = {"If-None-Match": "*"} if if_none_match else {}
        if if_match is not None:
            headers = {"If-Match": f'"{if_match}"'}
        return self._write(
            method,
            path,
            {**body, **reasons} or None,
            dry_run=dry_run,
            query=query,
            headers=headers,
            more_seconds=more_seconds,
        )

    def _require_list(self, answer: Document, key: str, number: int | None = None) -> Document:
        """The answer, if it has a list under the key, of `number` entries where that is known."""
        entries = answer.get(key)
        if not isinstance(entries, list) or number not in (None, len(entries)):
            raise ServerError(f"{self.endpoint} answered without {key!r}: is that an admin of this version?")
        return answer

    @contextmanager
    def _newer_path(self, remedy: str) -> Iterator[None]:
        """Says of a path that an older admin does not have that the admin is older, and what to do instead."""
        try:
            yield
        except NotFound as error:
            if error.name == PATH_NOT_FOUND:
                error.message = f"The admin at {self.endpoint} is older than this rainbowctl. {remedy}"
            raise

    @contextmanager
    def _newer_parameter(self, name: str, remedy: str) -> Iterator[None]:
        """The same of a parameter that an older admin refuses by name."""
        try:
            yield
        except InvalidRequest as error:
            if any(detail.get("field") == name for detail in error.details):
                error.message = f"The admin at {self.endpoint} is older than this rainbowctl. {remedy}"
            raise

    def _read_as_known(self, path: str, query: Document, *parameters: str, holding: str | None = None) -> Document:
        """The answer to a query; without parameters that ask for more, where an older admin refuses them by name."""
        try:
            return self._read(path, query, holding=holding)
        except InvalidRequest as error:
            return self._read(path, without_refused(query, parameters, error), holding=holding)

    def _pages(
        self, path: str, key: str, query: Mapping[str, Any] | None = None, *, optional: Sequence[str] = ()
    ) -> Iterator[Document]:
        """The entries of every page under a key; filters without a value are left out.

        `optional` names parameters that an older admin may not know, and is then asked without.
        """
        for page in self._answers(path, key, {"limit": PAGE, **non_empty(query or {})}, optional=optional):
            yield from page[key]

    def _answers(self, path: str, key: str, query: Document, *, optional: Sequence[str] = ()) -> Iterator[Document]:
        """Every page, as it comes."""
        while True:
            try:
                page = self._read(path, query, holding=key)
            except InvalidRequest as error:
                query = without_refused(query, optional, error)
                continue
            yield page
            token = page.get("token")
            # A token that repeats would make this loop endless.
            if not token or token == query.get("token"):
                return
            query = {**query, "token": token}


def without_refused(query: Document, parameters: Sequence[str], refusal: InvalidRequest) -> Document:
    """A query without those of some parameters that were refused by name; any other refusal is raised again."""
    refused = {detail.get("field") for detail in refusal.details}.intersection(parameters, query)
    if not refused:
        raise refusal
    return {name: query[name] for name in query if name not in refused}


def resource_path(start: str, **names: str) -> str:
    """The path of something by its names, each of which must be one that a URL can carry."""
    for key, name in names.items():
        check_name(key, name)
    return "/".join([start, *(quote(name, safe="") for name in names.values())])


def non_empty(filters: Mapping[str, Any]) -> Document:
    """The filters that have a value."""
    return {key: value for key, value in filters.items() if value not in (None, "")}
