"""The calls by which namespaces are made, each of which may be refused by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2 as httpx
from lightkube.config.client_adapter import Client, ConnectionParams
from lightkube.core.exceptions import ConfigError

from agent.engines.kubernetes.api import read_config
from agent.engines.resource_api import ApiRefusal, ApiUnavailable, Document

_APPLY = "application/apply-patch+yaml"
_MANAGER = "rainbow"


class LightkubeApi:
    """Calls one cluster, by a kubeconfig or as the pod that this runs in."""

    def __init__(self, kubeconfig: str = "", context: str = "", timeout_seconds: float = 10.0) -> None:
        parameters = ConnectionParams(timeout=httpx.Timeout(timeout_seconds), trust_env=False)
        self._client = Client(read_config(kubeconfig, context), parameters)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Document:
        """An object, or a list of them."""
        return self._call("GET", path, query=query)

    def apply(self, path: str, document: Document) -> Document:
        """Apply an object on the server's side; fields that others have set are taken over."""
        query = {"fieldManager": _MANAGER, "force": "true"}
        return self._call("PATCH", path, document, query=query, headers={"Content-Type": _APPLY})

    def delete(self, path: str) -> None:
        """Delete an object, and what belongs to it in the background."""
        self._call("DELETE", path, {"propagationPolicy": "Background"})

    def _call(
        self,
        method: str,
        path: str,
        document: Document | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Document:
        try:
            answer = self._client.request(method, path, json=document, params=query, headers=headers)
            body: Document = answer.json() if answer.content else {}
        except (httpx.HTTPError, ConfigError, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise ApiUnavailable(f"the Kubernetes API server does not answer: {reason}") from error
        message = str(body.get("message") or f"status {answer.status_code}")
        # A 500 is how the server refuses a quantity that is none; it answers so whenever it is asked.
        if answer.status_code in (401, 429, 502, 503, 504):
            raise ApiUnavailable(f"the Kubernetes API server answers: {message}")
        if answer.status_code >= 400:
            raise ApiRefusal(answer.status_code, message)
        return body
