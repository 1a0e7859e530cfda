"""Token pools over HTTP, and claims on their tokens."""

from __future__ import annotations

from admin.api.current import access, context
from admin.api.operations import Operations
from admin.api.writes import WRITE_HEADERS, change_options, expectation
from admin.core.changes import read_named, read_named_as
from admin.core.settings.scopes import Scope
from admin.core.token_pools.documents import read_claim, read_release, read_renewal
from admin.messages.definitions import DefinitionDeleteQuery
from admin.messages.pages import key_of, token_of
from admin.messages.requests import AuthorshipFields, Fields, PageQuery, WriteQuery
from admin.messages.shared import Json, to_json
from admin.messages.token_pools import (
    TokenAllocationAnswer,
    TokenClaimBody,
    TokenPoolAnswer,
    TokenPoolBody,
    TokenPoolExplanationAnswer,
    TokenPoolExplanationQuery,
    TokenPoolsAnswer,
    TokenPoolWritten,
    TokenReleaseAnswer,
    TokenReleaseBody,
    TokenRenewalAnswer,
    TokenRenewalBody,
)
from admin.services import token_pools
from admin.services.changeable.base import read_under
from admin.services.changes import Changed

operations = Operations("token_pools")


@operations.add("GET", "/token_pools", query=PageQuery, permission="token_pools.read", errors=(503,))
def list_token_pools(query: Fields) -> TokenPoolsAnswer:
    """List the token pools, and how much of each is held."""
    after = key_of(query.get("token"), 1)
    views, last = token_pools.list_token_pools(context(), after[0] if after else None, query["limit"])
    pools = [TokenPoolAnswer.from_view(view) for view in views]
    return TokenPoolsAnswer(token_pools=pools, token=token_of((last,)) if last else None)


@operations.add("GET", "/token_pools/<name>", permission="token_pools.read", errors=(404, 503))
def get_token_pool(name: str) -> TokenPoolAnswer:
    """Read a token pool, who holds its tokens, and who waits for some."""
    return TokenPoolAnswer.from_view(token_pools.get_token_pool(context(), name), _sees)


@operations.add(
    "GET",
    "/token_pools/<name>/explanation",
    query=TokenPoolExplanationQuery,
    permission="token_pools.read",
    errors=(404, 503),
)
def explain_token_pool(name: str, query: Fields) -> TokenPoolExplanationAnswer:
    """What bounds the tokens of a pool, what of it is full, and what set it."""
    place = Scope(**{key: query.get(key) or "" for key in Scope._fields}) if query else None
    explanation = token_pools.explain_token_pool(context(), name, place, query.get("execution") or "")
    return TokenPoolExplanationAnswer.from_explanation(explanation)


@operations.add(
    "POST", "/token_pools", query=WriteQuery, body=TokenPoolBody, permission="token_pools.write", errors=(409,)
)
def create_token_pool(query: Fields, body: Fields) -> TokenPoolWritten:
    """Define a token pool."""
    name, payload = read_named(body["token_pool"], "token_pool")
    options = change_options(query, body)
    return _written(name, token_pools.create_token_pool(context(), name, payload, options))


@operations.add(
    "PUT",
    "/token_pools/<name>",
    query=WriteQuery,
    body=TokenPoolBody,
    permission="token_pools.write",
    errors=(409,),
    headers=WRITE_HEADERS,
)
def put_token_pool(name: str, query: Fields, body: Fields) -> TokenPoolWritten:
    """Define a token pool, or define it anew; what is held stays held."""
    payload = read_named_as(name, body["token_pool"], "token_pool")
    options = change_options(query, body)
    return _written(name, token_pools.put_token_pool(context(), name, payload, expectation(), options))


@operations.add(
    "DELETE",
    "/token_pools/<name>",
    query=DefinitionDeleteQuery,
    body=AuthorshipFields,
    body_optional=True,
    permission="token_pools.write",
    errors=(409,),
    headers=WRITE_HEADERS,
)
def delete_token_pool(name: str, query: Fields, body: Fields) -> TokenPoolWritten:
    """Delete a token pool."""
    options = change_options(query, body)
    return _written(name, token_pools.put_token_pool(context(), name, None, expectation(), options))


@operations.add(
    "POST", "/token_allocations", body=TokenClaimBody, permission="token_pools.allocate", errors=(404, 409, 503)
)
def allocate_tokens(body: Fields) -> TokenAllocationAnswer:
    """Ask for tokens of one pool or several, all or none; asking again with the same token is safe."""
    claim = read_under("claim", lambda: read_claim(body["claim"]))
    answer = token_pools.allocate(context(), claim)
    return TokenAllocationAnswer.from_answer(claim.token, claim.amounts, answer, _sees)


@operations.add("POST", "/token_renewals", body=TokenRenewalBody, permission="token_pools.allocate", errors=(409, 503))
def renew_tokens(body: Fields) -> TokenRenewalAnswer:
    """Hold tokens for another lease."""
    renewal = read_under("renewal", lambda: read_renewal(body["renewal"]))
    return TokenRenewalAnswer.from_renewed(token_pools.renew(context(), renewal))


@operations.add("POST", "/token_releases", body=TokenReleaseBody, permission="token_pools.allocate", errors=(409, 503))
def release_tokens(body: Fields) -> TokenReleaseAnswer:
    """Give tokens back, or leave the line."""
    release = read_under("release", lambda: read_release(body["release"]))
    return TokenReleaseAnswer.from_released(release.token, token_pools.release(context(), release))


def _sees(place: Scope) -> bool:
    """Whether the caller may see what runs at a place."""
    return access().allows("executions.read", place)


def _written(name: str, changed: Changed) -> TokenPoolWritten:
    return TokenPoolWritten.from_changed(changed, token_pool=_definition(name, changed))


def _definition(name: str, changed: Changed) -> Json | None:
    """A pool after a change; in a plan only what is defined."""
    after = changed.rows[0].change.after
    if after is None:
        return None
    if changed.dry_run and changed.is_change:
        return {"name": name, **after}
    return to_json(TokenPoolAnswer.from_view(token_pools.get_token_pool(context(), name)))
