"""
The Python client of Rainbow: everything a program imports.

    from ctl.client import Client, Scope

    with Client.from_environment() as client:
        scope = Scope(project="flyteexamples", domain="development")
        label = client.get_attribute("execution-cluster-label", scope)
        client.put_attribute("execution-cluster-label", scope, {"value": "gpu"}, if_match=label.version)

A name is imported from its module when it is first used, so that the command line loads only what a command needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctl.client.answers import Attribute, Change, ChangeSet, Effective, RowChange
    from ctl.client.calls.registrations import Identifier
    from ctl.client.client import Client
    from ctl.client.connections import Remedies
    from ctl.client.contexts import Settings, load_settings
    from ctl.client.endpoints import Endpoint, parse_endpoint
    from ctl.client.errors import (
        ClientError,
        Conflict,
        Forbidden,
        InvalidInput,
        InvalidRequest,
        NotFound,
        RainbowError,
        ServerError,
        TokensExhausted,
        TokensLost,
        Unanswered,
        Unauthenticated,
        Unreachable,
    )
    from ctl.client.executions import Execution, ExecutionId
    from ctl.client.kinds import Kind, built_in
    from ctl.client.scopes import Scope
    from ctl.client.tokens import HeldTokens
    from ctl.client.transport import Transport

__all__ = [
    "Attribute",
    "Change",
    "ChangeSet",
    "Client",
    "ClientError",
    "Conflict",
    "Effective",
    "Endpoint",
    "Execution",
    "ExecutionId",
    "Forbidden",
    "HeldTokens",
    "Identifier",
    "InvalidInput",
    "InvalidRequest",
    "Kind",
    "NotFound",
    "RainbowError",
    "Remedies",
    "RowChange",
    "Scope",
    "ServerError",
    "Settings",
    "TokensExhausted",
    "TokensLost",
    "Transport",
    "Unanswered",
    "Unauthenticated",
    "Unreachable",
    "built_in",
    "load_settings",
    "parse_endpoint",
]

#: The modules of all names but the errors, which are in `errors`.
_MODULES = {
    "answers": ("Attribute", "Change", "ChangeSet", "Effective", "RowChange"),
    "calls.registrations": ("Identifier",),
    "client": ("Client",),
    "connections": ("Remedies",),
    "contexts": ("Settings", "load_settings"),
    "endpoints": ("Endpoint", "parse_endpoint"),
    "executions": ("Execution", "ExecutionId"),
    "kinds": ("Kind", "built_in"),
    "scopes": ("Scope",),
    "tokens": ("HeldTokens",),
    "transport": ("Transport",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:  # else a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULE_OF.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
