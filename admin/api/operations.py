"""Operations: a route, what it takes and gives, and its line in the OpenAPI document, declared in one place."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, get_args, get_type_hints

from flask import Blueprint, Response, request
from msgspec import structs
from werkzeug.routing import BaseConverter

from admin import gate
from admin.api.bodies import raw_body, read_body
from admin.api.current import access, readmit
from admin.api.scopes import Guarded, check_request, sees_all
from admin.api.untold import without_untold
from admin.core.permissions import OPEN, check_requirement
from admin.core.problems import Invalid, invalid
from admin.messages.reading import Body, read
from admin.messages.requests import RequestSchema, load
from admin.messages.shared import Answer, SeenAnswer, encode

View = TypeVar("View", bound=Callable[..., Any])
#: A request that waited for longer is admitted once more before it is answered.
_LONG_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Operation(Guarded):
    """One method of one path, with all that the OpenAPI document says of it."""

    id: str  #: what generated clients call it
    summary: str
    tag: str
    query: type[RequestSchema] | None
    body: type[RequestSchema] | type[Body] | None
    body_optional: bool
    answers: tuple[type[Answer], ...]  #: the shapes that its answer may have; none where it is plain text
    errors: tuple[int, ...]  #: beside those that every operation may answer with
    headers: tuple[str, ...]  #: request headers that matter
    unread: bool  #: whether its view gets the bytes of the body
    if_too_large: str  #: what to do about a body that is larger than allowed
    view: Callable[..., Any]  #: what answers it


class Rest(BaseConverter):
    """All that remains of a path, slashes and line breaks too, so that a bad name is refused by name."""

    regex = "(?s:.+)"
    part_isolating = False


class Operations:
    """The operations of one noun; a blueprint that knows its own documentation."""

    def __init__(self, noun: str, prefix: str = "/api/v1") -> None:
        self.noun = noun
        self.prefix = prefix
        self.blueprint = Blueprint(noun, __name__)
        self.all: list[Operation] = []

    def add(
        self,
        method: str,
        path: str,
        *,
        permission: str,
        also: str | None = None,
        query: type[RequestSchema] | None = None,
        body: type[RequestSchema] | type[Body] | None = None,
        body_optional: bool = False,
        id: str | None = None,
        summary: str | None = None,
        answer: type[Answer] | None = None,
        errors: tuple[int, ...] = (),
        headers: tuple[str, ...] = (),
        shows_some: bool = False,
        own: str | None = None,
        for_agents: bool = False,
        guarded_with_users: bool = False,
        most_bytes: int | None = None,
        unread: bool = False,
        if_too_large: str = "",
    ) -> Callable[[View], View]:
        """Declare an operation; its view gets the path's parts, and `query` and `body` where it declares them.

        With `unread` the body is given to it as bytes, which a service reads.

        The view's name is the id, its docstring the summary and its return type the answer, where they are not given.
        The permission that it needs is never left out; ValueError for one that does not exist. `also` is one that does
        for rows of some kinds. One that is
        `guarded_with_users` needs neither it nor a token as long as callers are no users.
        """

        def register(view: View) -> View:
            operation = Operation(
                method=method,
                path=self.prefix + path,
                id=id or view.__name__,
                summary=summary or (view.__doc__ or "").rstrip("."),
                tag=self.noun,
                query=query,
                body=body,
                body_optional=body_optional,
                answers=_answers(view) if answer is None else (answer,),
                errors=errors,
                headers=headers,
                permission=check_requirement(permission),
                also=None if also is None else check_requirement(also),
                shows_some=shows_some,
                own=own,
                is_open=permission == OPEN or guarded_with_users,
                guarded_with_users=guarded_with_users,
                for_agents=for_agents,
                most_bytes=most_bytes,
                unread=unread,
                if_too_large=if_too_large,
                view=view,
            )
            self.all.append(operation)
            endpoint = f"{method.lower()}:{path}".replace(".", "_")
            self.blueprint.add_url_rule(operation.path, endpoint, _handler(operation), methods=[method])
            return view

        return register


def _answers(view: Callable[..., Any]) -> tuple[type[Answer], ...]:
    """The answers that a view's return type names; none where it makes a response of its own."""
    answer = get_type_hints(view)["return"]
    return tuple(shape for shape in get_args(answer) or (answer,) if issubclass(shape, Answer))


def _handler(operation: Operation) -> Callable[..., Response]:
    query = operation.query() if operation.query else None
    read_message = _reader(operation.body)
    usual = _usual(query)

    def handle(**path: str) -> Response:
        arguments: dict[str, Any] = dict(path)
        for name, value in path.items():
            if "\0" in value and name != "id":  # no database can even be asked for it; projects look for themselves
                raise invalid(name, "holds a character that no name has.")
        if query is not None:
            arguments["query"] = load(query, _query_values()) if usual is None or request.query_string else {**usual}
        elif request.args:
            raise invalid(next(iter(request.args)), "this path takes no query parameters.")
        if operation.is_open:
            request.max_content_length = min(gate.MOST_OPEN_BYTES, request.max_content_length or gate.MOST_OPEN_BYTES)
        elif operation.most_bytes is not None:
            request.max_content_length = max(operation.most_bytes, request.max_content_length or 0)
        if operation.unread:
            arguments["body"] = raw_body(optional=operation.body_optional)
        elif read_message is not None:
            body = read_body(optional=operation.body_optional, if_too_large=operation.if_too_large)
            arguments["body"] = read_message(body)
        return answer(operation, path, arguments)

    return handle


def answer(operation: Operation, path: dict[str, str], arguments: dict[str, Any]) -> Response:
    """What answers an operation, of whose caller it is checked that they may ask for it."""
    _check(operation, path, arguments)
    began = time.monotonic()
    answered = operation.view(**arguments)
    if operation.method == "GET" and time.monotonic() - began > _LONG_SECONDS:
        readmit()  # while it waited, its token may have been revoked, or its grant taken away
        _check(operation, path, arguments)
    if isinstance(answered, SeenAnswer) and not sees_all(operation, access(), path, arguments.get("query")):
        answered = structs.replace(answered, partial=True)
    response = answered if isinstance(answered, Response) else respond(answered)
    return without_untold(operation.permission, response)


def ask(operation: Operation, path: dict[str, str], query: dict[str, str], body: Any = None) -> Response:
    """What answers an operation that another front asks for its caller, read and checked as a request of its own."""
    arguments: dict[str, Any] = dict(path)
    if operation.query is not None:
        arguments["query"] = load(operation.query(), query)
    read_message = _reader(operation.body)
    if read_message is not None:
        arguments["body"] = read_message({} if body is None else body)
    return answer(operation, path, arguments)


def _check(operation: Operation, path: dict[str, str], arguments: dict[str, Any]) -> None:
    """Refuse what the caller may not do."""
    granted = access()
    if granted.is_restricted:
        check_request(operation, granted, path, arguments.get("query"), arguments.get("body"))


def _reader(body: type[RequestSchema] | type[Body] | None) -> Callable[[Any], Any] | None:
    """What reads a body by its definition."""
    if body is None:
        return None
    return partial(read, body) if issubclass(body, Body) else partial(load, body())


def respond(answer: Answer, *, etag: int | None = None) -> Response:
    """An answer as JSON; with the version of a row as its tag."""
    response = Response(encode(answer), mimetype="application/json")
    if etag is not None:
        response.set_etag(str(etag))
    return response


def _usual(query: RequestSchema | None) -> dict[str, Any] | None:
    """What a query without parameters comes to; None where it must have some."""
    try:
        return None if query is None else load(query, {})
    except Invalid:
        return None


def _query_values() -> dict[str, str]:
    for name, values in request.args.lists():
        if len(values) > 1:
            raise invalid(name, "is given several times; give it once.")
    return request.args.to_dict()
