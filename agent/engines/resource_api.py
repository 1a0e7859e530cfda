"""What is asked of a Kubernetes API server to make objects; without its client, which is an extra."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

Document = dict[str, Any]


class ApiUnavailable(Exception):
    """The API server does not answer, or not now."""


class ApiRefusal(Exception):
    """The API server refuses, in its own words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class KubernetesApi(Protocol):
    """Calls a cluster; ApiRefusal and ApiUnavailable for what fails."""

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Document:
        """An object, or a list of them."""

    def apply(self, path: str, document: Document) -> Document:
        """Apply an object on the server's side, as the field manager `rainbow`, whoever has its fields now."""

    def delete(self, path: str) -> None:
        """Delete an object."""
