"""Token pools over HTTP, and claims on their tokens."""

from __future__ import annotations

from admin.api.current import access, context
from admin.api.definition_writes import DefinitionWrites
from admin.api.operations import Operations
from admin.core.settings.scopes import Scope
from admin.core.token_pools.documents import read_claim, read_release, read_renewal
from admin.messages.pages import key_of, token_of
from admin.messages.requests import Fields, PageQuery
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


DefinitionWrites(
    path="/token_pools",
    noun="token_pool",
    title="a token pool",
    permission="token_pools.write",
    body=TokenPoolBody,
    written=TokenPoolWritten,
    create=token_pools.create_token_pool,
    put=token_pools.put_token_pool,
    read=lambda name: TokenPoolAnswer.from_view(token_pools.get_token_pool(context(), name)),
).add_to(operations)


@operations.add(
    "POST", "/token_allocations", body=TokenClaimBody, permission="token_pools.allocate", errors=(404, 409, 429, 503)
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
