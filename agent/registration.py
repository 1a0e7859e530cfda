"""Registration: get a token for a cluster, and keep it in a file that only its owner can read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.files import write_durably
from agent.transport import AdminClient, cluster_path


class TokenFileError(Exception):
    """The token file cannot be written, with the reason and the remedy."""


def prepare_token_file(path: Path, *, may_exist: bool) -> None:
    """Check that a token can be written before one is requested, because it is shown only once."""
    if path.exists() and not may_exist:
        raise TokenFileError(
            f"tokenFile: {path} exists already: use it, renew it with `rainbow-agent rotate`, or remove it first"
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise TokenFileError(f"tokenFile: {path.parent} cannot be created: {error.strerror}") from None
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise TokenFileError(f"tokenFile: {path.parent} is not writable: name another file with --token-file")


def register(client: AdminClient, cluster: str, secret: str, description: Mapping[str, Any]) -> str:
    """Register a cluster; returns its token."""
    body: dict[str, Any] = {"secret": secret}
    if description:
        body["description"] = dict(description)
    return str(client.post(cluster_path(cluster, "register"), body)["token"])


def rotate(client: AdminClient, cluster: str, overlap: str) -> str:
    """Get a new token for a cluster; the present one expires after the overlap."""
    return str(client.post(cluster_path(cluster, "tokens"), {"overlap": overlap})["token"])


def write_token(path: Path, token: str) -> None:
    """Write a token to a file that only its owner can read."""
    write_durably(path, f"{token}\n".encode(), mode=0o600)
