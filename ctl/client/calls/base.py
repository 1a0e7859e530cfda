"""What all calls of the client share: how answers are read, page by page where there are many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ctl.client.answers import Document
from ctl.client.errors import ServerError
from ctl.client.scopes import check_name
from ctl.client.transport import Transport


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

    def _require_list(self, answer: Document, key: str, number: int | None = None) -> Document:
        """The answer, if it has a list under the key, of `number` entries where that is known."""
        entries = answer.get(key)
        if not isinstance(entries, list) or number not in (None, len(entries)):
            raise ServerError(f"{self.endpoint} answered without {key!r}: is that an admin of this version?")
        return answer

    def _pages(self, path: str, key: str, query: Document) -> Iterator[Document]:
        while True:
            page = self._read(path, query, holding=key)
            yield from page[key]
            token = page.get("token")
            # A token that repeats would make this loop endless.
            if not token or token == query.get("token"):
                return
            query = {**query, "token": token}


def resource_path(start: str, **names: str) -> str:
    """The path of something by its names, each of which must be one that a URL can carry."""
    for key, name in names.items():
        check_name(key, name)
    return "/".join([start, *(quote(name, safe="") for name in names.values())])


def non_empty(filters: Mapping[str, Any]) -> Document:
    """The filters that have a value."""
    return {key: value for key, value in filters.items() if value not in (None, "")}


def reason_fields(message: str | None, claimed_by: str | None) -> Document:
    """The reason and the author of a change, as far as they are known."""
    return {key: text for key, text in (("message", message), ("claimed_by", claimed_by)) if text}


def version_headers(if_match: int | None, if_none_match: bool = False) -> dict[str, str]:
    """The header with the version that a write expects, or that no row exists yet."""
    if if_match is not None:
        return {"If-Match": f'"{if_match}"'}
    return {"If-None-Match": "*"} if if_none_match else {}
