"""The errors of `ctl.client`, under the name that programs written for earlier versions import."""

from __future__ import annotations

from ctl.client.errors import (
    EXIT_BROKEN_PIPE,
    EXIT_CODES,
    AlreadyCreated,
    ClientError,
    Conflict,
    Declined,
    EndedOtherwise,
    Forbidden,
    Interrupted,
    InvalidFile,
    InvalidInput,
    InvalidRequest,
    NotFound,
    NothingSet,
    RainbowError,
    ServerError,
    Unanswered,
    Unauthenticated,
    Unreachable,
    WarningsFound,
)

__all__ = [
    "EXIT_BROKEN_PIPE",
    "EXIT_CODES",
    "AlreadyCreated",
    "ClientError",
    "Conflict",
    "Declined",
    "EndedOtherwise",
    "Forbidden",
    "Interrupted",
    "InvalidFile",
    "InvalidInput",
    "InvalidRequest",
    "NotFound",
    "NothingSet",
    "RainbowError",
    "ServerError",
    "Unanswered",
    "Unauthenticated",
    "Unreachable",
    "WarningsFound",
]
