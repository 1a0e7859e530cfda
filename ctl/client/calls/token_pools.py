"""
The calls of the client that are about tokens of token pools.

    client.register_resource("hive", 10)
    with client.tokens("hive", project="ads", domain="production", timeout=60) as held:
        query(held.number)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from ctl.client.answers import Document
from ctl.client.calls.base import PATH_NOT_FOUND, non_empty, resource_path
from ctl.client.calls.fleet import FleetCalls
from ctl.client.errors import Conflict, InvalidInput, NotFound
from ctl.client.nouns import TOKEN_POOL, collection
from ctl.client.scopes import Scope

if TYPE_CHECKING:
    from ctl.client.tokens import HeldTokens

#: How long tokens are held without being renewed.
LEASE_SECONDS = 60.0


class TokenPoolCalls(FleetCalls):
    """Part of the client; see `ctl.client.Client`."""

    def register_resource(
        self,
        name: str,
        quota: int,
        *,
        caps: Mapping[str, int] | None = None,
        description: str | None = None,
        message: str | None = None,
    ) -> Document:
        """
        The token pool of a resource, made with a capacity of `quota` where there is none.

        One that exists stays as it is, for whoever runs the platform may have changed it: its `capacity` tells.
        `caps` are those of `project`, `namespace` and `execution`.
        """
        try:
            return self.definition(TOKEN_POOL, name)
        except NotFound as error:
            if error.name == PATH_NOT_FOUND and "/" not in name:  # which is refused with the rule for names
                raise
        definition: Document = {"capacity": quota, **non_empty({"caps": caps, "description": description})}
        with suppress(Conflict):  # another program may register it meanwhile
            self.create_definition(TOKEN_POOL, name, definition, message=message)
        return self.definition(TOKEN_POOL, name)

    def tokens(
        self,
        pools: str | Mapping[str, int],
        amount: int = 1,
        *,
        project: str | None = None,
        domain: str | None = None,
        workflow: str | None = None,
        launch_plan: str | None = None,
        execution: str | None = None,
        timeout: float | None = None,
        lease: float = LEASE_SECONDS,
        priority: int | None = None,
        constraints: Mapping[str, int] | None = None,
        token: str | None = None,
        on_wait: Callable[[Document], None] | None = None,
        on_lost: Callable[[str], None] | None = None,
    ) -> HeldTokens:
        """
        Tokens to hold for as long as a `with` block runs; see `ctl.client.tokens.HeldTokens`.

        `pools` is one pool, of which `amount` tokens are wanted, or how many of several; all are granted, or none.
        `timeout` is how many seconds to wait in line: None without limit, 0 not at all. `lease` is for how long they
        are held if this program dies. `on_wait` is called with each answer that grants nothing, `on_lost` with the
        reason when the lease was lost.
        """
        from ctl.client.tokens import HeldTokens

        if not isinstance(pools, str) and amount != 1:
            raise InvalidInput("`amount` is for one pool: give the amounts of several with their names.")
        if timeout is not None and not timeout >= 0:  # which no NaN is
            raise InvalidInput("`timeout` is how many seconds to wait: 0 for not at all, None without limit.")
        place = {"project": project, "domain": domain, "workflow": workflow, "launch_plan": launch_plan}
        claim: Document = {
            "pools": {pools: amount} if isinstance(pools, str) else dict(pools),
            "lease_seconds": lease,
            **non_empty({**place, "execution": execution, "priority": priority, "constraints": constraints}),
        }
        return HeldTokens(self._transport, claim, timeout=timeout, token=token, on_wait=on_wait, on_lost=on_lost)

    def explain_token_pool(self, name: str, scope: Scope | None = None, *, execution: str | None = None) -> Document:
        """What bounds the tokens of a pool, for those who hold or want some or at a scope; and what of it is full."""
        query = non_empty({**(scope.document() if scope else {}), "execution": execution})
        return self._read(f"{resource_path(collection(TOKEN_POOL), name=name)}/explanation", query)
