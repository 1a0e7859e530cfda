"""Token pools as revisions change them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from admin.core.changes import (
    ANYTHING,
    Document,
    Expectation,
    RowChange,
    RowKey,
    RowWrite,
    read_deleted,
    read_named,
    rows_after,
)
from admin.core.in_use import Use, describe_needing
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import PLATFORM
from admin.core.settings.warnings import Warning, WarningCode
from admin.core.token_pools.claims import EXECUTION_PREFIX
from admin.core.token_pools.definitions import (
    TOKEN_POOL,
    TOKENS_OFF,
    check_quota,
    loose_caps,
    read_token_pool,
    token_pool_of,
)
from admin.core.token_pools.grants import Grant
from admin.core.token_pools.limits import QUOTAS, TOKEN_POOL_QUOTA
from admin.errors import TokensUnreachable
from admin.services.access import UNRESTRICTED
from admin.services.changeable.base import Changeable, read_under, row_change
from admin.services.context import Context
from admin.services.token_uses import find_token_requests
from admin.store import attributes, token_pools, token_requests
from admin.store.token_backends.base import PoolUsage, TokensUnavailable
from admin.store.token_tables import TOKEN_POOLS

_FIELD = "token_pool_definition"
_MOST_NAMED = 5  # executions that need tokens of a removed pool
_MOST_QUOTAS = 20  # rows that bound a removed pool, and are named


def token_pool_write(name: str, payload: Payload | None, expectation: Expectation = ANYTHING) -> RowWrite:
    """Define a token pool; None removes it."""

    def change(_before: Payload | None) -> Payload | None:
        return None if payload is None else read_token_pool(name, payload)

    return RowWrite(key=RowKey(TOKEN_POOL, name, PLATFORM), change=change, expectation=expectation)


class ChangeableTokenPools(Changeable):
    """Token pools."""

    kinds = (TOKEN_POOL,)
    permission = "token_pools.write"

    @classmethod
    def read(cls, context: Context, kind: str, document: Document) -> RowWrite:
        if document["delete"]:
            return token_pool_write(read_deleted(document[_FIELD], _FIELD), None)
        name, payload = read_named(document[_FIELD], _FIELD)
        return token_pool_write(name, read_under(_FIELD, lambda: read_token_pool(name, payload)))

    @classmethod
    def restore(cls, context: Context, change: RowChange) -> RowWrite:
        return token_pool_write(change.name, change.after)

    def load(self, writes: Sequence[RowWrite]) -> None:
        self._before = TOKEN_POOLS.some(self.connection, [write.key.name for write in writes])

    def change(self, write: RowWrite) -> RowChange:
        stored = self._before.get(write.key.name)
        return row_change(write, stored.payload if stored else None, stored.version if stored else None)

    @classmethod
    def stored_warnings(cls, context: Context, connection: Connection) -> Iterator[Warning]:
        if context.access.allows_some("token_pools.read"):
            for pool in TOKEN_POOLS.every(connection):
                yield from _warnings_of(context, pool.name, pool.payload, pool.version)

    def check(self, rows: Sequence[tuple[RowWrite, RowChange]]) -> Iterator[Warning]:
        """Refuse a capacity that the configuration does not allow, and warn of caps that never bind."""
        most = self.context.settings.resource_manager.resource_max_quota
        for write, change in rows:
            if change.after is not None:
                with self.draft.collecting_problems(write):
                    check_quota(change.before, change.after, most)
                yield from _warnings_of(self.context, change.name, change.after, change.revision)

    def users(self, removed: Sequence[RowChange]) -> Iterator[Use]:
        """Those that hold tokens of a pool, which they keep until they give them back, and what asks for some."""
        names = [change.name for change in removed if change.name in self._before]
        try:
            used = self.context.tokens.usage(names) if names else {}
        except TokensUnavailable as error:
            raise TokensUnreachable(
                f"{error}. Whether tokens are held cannot be told: delete it again later."
            ) from error
        for name in names:
            for use in self._users_of(name, used.get(name)):
                yield replace(use, removed=name, removed_noun="token-pool", reason=f"token pool '{name}': {use.reason}")

    def _users_of(self, pool: str, usage: PoolUsage | None) -> Iterator[Use]:
        for grant in usage.grants if usage else ():
            yield Use(noun="token", reason=f"{self._describe_holder(grant)} holds {grant.amount} of it")
        if usage and (others := usage.holder_count - len(usage.grants)):
            yield Use(noun="token", reason=f"{others} more hold some of it", count=others)
        yield from self._quotas_of(pool)
        asking = find_token_requests(self.context.seen_by(UNRESTRICTED), self.connection, pool)
        for request in asking.first:
            if request.key is not None and request.version is None:
                yield Use(noun="configuration", reason=f"{request.key} asks for {request.amount} of it")
            elif request.is_refused:
                noun = "launch_plans" if request.scope.launch_plan else "workflows"
                reason = f"{request.scope}, version '{request.version}', asks for {request.amount} of it"
                yield Use(noun=noun, reason=reason)
        if rest := asking.refused - sum(request.is_refused for request in asking.first):
            yield Use(noun="launch_plans", reason=f"{rest} more launch plans or workflows ask for it", count=rest)
        if count := token_requests.count_unfinished(self.connection, pool):
            readable = self.draft.options.access.scopes("executions.read")
            newest = token_requests.unfinished(self.connection, pool, readable, _MOST_NAMED)
            first = tuple(f"{row.project}/{row.domain}/{row.name}" for row in newest)
            yield Use(noun="executions", reason=describe_needing(count, first), executions=first)

    def _describe_holder(self, grant: Grant) -> str:
        """Who holds tokens, as far as the caller may see it."""
        place = grant.place
        if not self.draft.options.access.allows("executions.read", place):
            return "somebody whose work you may not see"
        is_of_run = grant.token.startswith(EXECUTION_PREFIX)
        return f"{place.project}/{place.domain}/{grant.execution}" if is_of_run else f"'{grant.token}'"

    def _quotas_of(self, pool: str) -> Iterator[Use]:
        """The quotas of a pool, which would bound nothing; those that this change itself takes away do not count."""
        changed = [change for change in self.draft.changes if change.kind == TOKEN_POOL_QUOTA]
        before = sum(_bounds(change.before, pool) for change in changed)
        count = attributes.count_with_key(self.connection, TOKEN_POOL_QUOTA, QUOTAS, pool) - before
        count += sum(_bounds(change.after, pool) for change in changed)
        if not count:
            return
        stored = attributes.with_key(self.connection, TOKEN_POOL_QUOTA, QUOTAS, pool, limit=_MOST_QUOTAS + before)
        rows = [row for row in rows_after(stored, changed).values() if _bounds(row.payload, pool)][:_MOST_QUOTAS]
        for row in rows:
            yield Use(noun="attributes", reason=f"the quota at {row.scope} bounds it", version=row.version)
        if rest := count - len(rows):
            yield Use(noun="attributes", reason=f"{rest} more quotas bound it", count=rest)

    def store(self, changes: Sequence[RowChange], revision: int, now: datetime) -> None:
        if changes:
            token_pools.write(self.connection, changes, revision)


def _bounds(quotas: Payload | None, pool: str) -> bool:
    """Whether a row of quotas bounds a pool."""
    return quotas is not None and pool in quotas.get(QUOTAS, {})


def _warnings_of(context: Context, name: str, payload: Payload, version: int) -> Iterator[Warning]:
    if context.settings.resource_manager.grants_everything:
        yield _warning(WarningCode.TOKENS_OFF, name, version, "", TOKENS_OFF)
    for loose in loose_caps(token_pool_of(name, payload)):
        message = f"A cap of {loose.cap} for each {loose.level} never binds: {loose.broader} is {loose.bound}."
        yield _warning(WarningCode.LOOSE_CAP, name, version, f"caps.{loose.level}", message)


def _warning(code: WarningCode, name: str, version: int, field: str, message: str) -> Warning:
    return Warning(
        code=code, message=message, kind=TOKEN_POOL, scope=PLATFORM, field=field, name=name, version=version or None
    )
