"""Users over HTTP: people and service accounts, their tokens, and who calls."""

from __future__ import annotations

from collections.abc import Sequence

from flask import Response

from admin.api.current import caller, context, origin
from admin.api.definition_writes import DefinitionWrites
from admin.api.operations import Operations, respond
from admin.core.permissions import SIGNED_IN
from admin.core.users import User
from admin.messages.pages import key_of, token_of
from admin.messages.requests import Fields, WriteQuery
from admin.messages.tokens import RevokedAnswer
from admin.messages.users import (
    AllUserTokensAnswer,
    IssuedUserTokenAnswer,
    UserAnswer,
    UserBody,
    UsersAnswer,
    UsersQuery,
    UserTokenAnswer,
    UserTokenBody,
    UserTokensAnswer,
    UserTokensQuery,
    UserWritten,
    WhoamiAnswer,
)
from admin.services import audit, user_tokens, users

operations = Operations("users")


@operations.add("GET", "/whoami", permission=SIGNED_IN, for_agents=True)
def whoami() -> WhoamiAnswer:
    """Who calls, and how that was proven."""
    return WhoamiAnswer.from_identity(caller().identity)


@operations.add("GET", "/users", query=UsersQuery, permission="users.read")
def list_users(query: Fields) -> UsersAnswer:
    """List users: people and service accounts."""
    after = key_of(query.get("token"), 1)
    page, last = users.list_users(
        context(),
        service_account=query.get("service_account"),
        idle_for=query.get("idle"),
        after=after[0] if after else None,
        limit=query["limit"],
    )
    return UsersAnswer(users=_answers(page), token=token_of((last,)) if last else None)


@operations.add("GET", "/users/<name>", permission="users.read", own="name", errors=(404,))
def get_user(name: str) -> UserAnswer:
    """Read a user."""
    return _answers([users.get_user(context(), name)])[0]


DefinitionWrites(
    path="/users",
    noun="user",
    title="a user",
    permission="users.write",
    body=UserBody,
    written=UserWritten,
    create=users.create_user,
    put=users.put_user,
    read=get_user,
    delete_query=WriteQuery,
    deletes_also=", and revoke its tokens",
).add_to(operations)


def _answers(listed: Sequence[User]) -> list[UserAnswer]:
    made_by, last_seen = users.user_provenance(context(), listed), users.last_seen(context(), listed)
    return [UserAnswer.from_user(user, made_by, last_seen) for user in listed]


@operations.add("GET", "/users/<name>/tokens", permission="tokens.read", own="name", errors=(404,))
def list_user_tokens(name: str) -> UserTokensAnswer:
    """List a user's tokens."""
    now = context().clock()
    listed = user_tokens.list_tokens(context(), name)
    return UserTokensAnswer(tokens=[UserTokenAnswer.from_token(token, now) for token in listed])


@operations.add("GET", "/user_tokens", query=UserTokensQuery, permission=SIGNED_IN)
def list_all_user_tokens(query: Fields) -> AllUserTokensAnswer:
    """List the tokens of all users that the caller may see: of others with tokens.read, else their own."""
    now, after = context().clock(), key_of(query.get("token"), 2)
    page = user_tokens.list_all_tokens(
        context(),
        unused_for=query.get("unused"),
        after=(after[0], after[1]) if after else None,
        limit=query["limit"],
    )
    return AllUserTokensAnswer(
        tokens=[UserTokenAnswer.from_token(token, now) for token in page.tokens],
        token=token_of(page.last) if page.last else None,
        partial=not page.is_all or None,
    )


@operations.add(
    "POST",
    "/users/<name>/tokens",
    body=UserTokenBody,
    answer=IssuedUserTokenAnswer,
    permission="tokens.write",
    own="name",
    errors=(404, 409),
)
def create_user_token(name: str, body: Fields) -> Response:
    """Make a token of a user; it is shown this once."""
    issued = user_tokens.create_token(context(), name, body["name"], body.get("expires"), body.get("narrowed"))
    audit.note_token_created(context(), origin(), caller().identity, issued)
    response = respond(IssuedUserTokenAnswer.from_issued(issued))
    response.headers["Cache-Control"] = "no-store"
    return response


@operations.add("DELETE", "/users/<name>/tokens/<prefix>", permission="tokens.write", own="name", errors=(404,))
def revoke_user_token(name: str, prefix: str) -> RevokedAnswer:
    """Revoke a token of a user at once."""
    is_changed = user_tokens.revoke(context(), name, prefix)
    if is_changed:
        audit.note_token_revoked(context(), origin(), caller().identity, audit.user_token(name, prefix))
    return RevokedAnswer(prefix=prefix, changed=is_changed)
