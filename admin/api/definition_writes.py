"""Creating, defining anew and deleting what has a name and a definition: the same three operations for each noun."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from admin.api.current import context
from admin.api.operations import Operations
from admin.api.writes import WRITE_HEADERS, change_options, expectation
from admin.core.changes import read_named, read_named_as
from admin.messages.definitions import DefinitionDeleteQuery, WrittenAnswer
from admin.messages.requests import AuthorshipFields, Fields, RequestSchema, WriteQuery
from admin.messages.shared import Answer, Json, to_json
from admin.services.changes import Changed


@dataclass(frozen=True, kw_only=True)
class DefinitionWrites:
    """What the writes of a noun need to know of it."""

    path: str  #: of the list, as /token_pools
    noun: str  #: the field of bodies and answers, and the end of operations' ids
    title: str  #: in summaries, with its article
    permission: str
    body: type[RequestSchema]
    written: type[WrittenAnswer]
    create: Callable[..., Changed]  #: given context, name, definition and options
    put: Callable[..., Changed]  #: given an expectation before the options; deletes where the definition is None
    read: Callable[[str], Answer]  #: what GET answers for a name
    delete_query: type[RequestSchema] = DefinitionDeleteQuery
    deletes_also: str = ""  #: what else goes with it, for the summary

    def add_to(self, operations: Operations) -> None:
        """Declare the three operations."""
        add: Callable[..., Any] = partial(
            operations.add, permission=self.permission, answer=self.written, errors=(409,)
        )
        add(
            "POST",
            self.path,
            id=f"create_{self.noun}",
            summary=f"Define {self.title}",
            query=WriteQuery,
            body=self.body,
        )(self._create)
        row = partial(add, path=f"{self.path}/<name>", headers=WRITE_HEADERS)
        row(
            "PUT",
            id=f"put_{self.noun}",
            summary=f"Define {self.title}, or define it anew",
            query=WriteQuery,
            body=self.body,
        )(self._put)
        row(
            "DELETE",
            id=f"delete_{self.noun}",
            summary=f"Delete {self.title}{self.deletes_also}",
            query=self.delete_query,
            body=AuthorshipFields,
            body_optional=True,
        )(self._delete)

    def _create(self, query: Fields, body: Fields) -> Answer:
        name, definition = read_named(body[self.noun], self.noun)
        return self._answer(name, self.create(context(), name, definition, change_options(query, body)))

    def _put(self, name: str, query: Fields, body: Fields) -> Answer:
        definition = read_named_as(name, body[self.noun], self.noun)
        return self._answer(name, self.put(context(), name, definition, expectation(), change_options(query, body)))

    def _delete(self, name: str, query: Fields, body: Fields) -> Answer:
        return self._answer(name, self.put(context(), name, None, expectation(), change_options(query, body)))

    def _answer(self, name: str, changed: Changed) -> WrittenAnswer:
        return self.written.from_changed(changed, **{self.noun: self._definition(name, changed)})

    def _definition(self, name: str, changed: Changed) -> Json | None:
        """What was defined, after a change; in a plan only the definition."""
        after = changed.rows[0].change.after
        if after is None:
            return None
        if changed.dry_run and changed.is_change:
            return {"name": name, **after}
        return to_json(self.read(name))
