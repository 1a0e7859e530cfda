"""Registration: the secret goes in once, a token comes out once and is kept in a file that only its owner reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.files import write_durably
from agent.transport import Transport, cluster_path


class TokenFileError(Exception):
    """A token that cannot be kept."""


def prepare_token_file(path: Path, *, may_exist: bool) -> None:
    """Make sure that a token can be written before one is asked for: it is shown only once."""
    if path.exists() and not may_exist:
        raise TokenFileError(
            f"tokenFile: {path} is there already: use it, renew it with `rainbow-agent rotate`, or remove it first"
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise TokenFileError(f"tokenFile: {path.parent} cannot be made: {error.strerror}") from None
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise TokenFileError(f"tokenFile: {path.parent} is not writable: give another place with --token-file")


def register(transport: Transport, cluster: str, secret: str, description: Mapping[str, Any]) -> str:
    """The token of a newly registered cluster."""
    body: dict[str, Any] = {"secret": secret}
    if description:
        body["description"] = dict(description)
    return str(transport.post(cluster_path(cluster, "register"), body)["token"])


def rotate(transport: Transport, cluster: str, overlap: str) -> str:
    """A new token for a cluster; the present one ends after the overlap."""
    return str(transport.post(cluster_path(cluster, "tokens"), {"overlap": overlap})["token"])


def write_token(path: Path, token: str) -> None:
    """Keep a token where only its owner can read it."""
    write_durably(path, f"{token}\n".encode(), mode=0o600)
