"""The API of a Kubernetes cluster: one configuration, a client for calls and one for streams."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx2 as httpx
from lightkube.config.client_adapter import Client, ConnectionParams
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.core.exceptions import ConfigError

from agent.engines.base import EngineUnavailable, NothingDone, OptionError

MERGE = "application/merge-patch+json"
_NOT_CONFIGURED = (
    "kubernetes: there is no kubeconfig and no service account of a pod: name one with engineOptions.kubeconfig, or "
    "set KUBECONFIG"
)


class NotNow(EngineUnavailable):
    """The API server answers that it does not do one thing now, which says nothing of any other."""


class Forbidden(NotNow, NothingDone):
    """The agent lacks a right, which the message names by verb, resource and namespace."""


class Refusal(Exception):
    """The API server answers with an error: its status, its reason and its words."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Api:
    """Calls one cluster."""

    def __init__(self, kubeconfig: str = "", context: str = "", timeout_seconds: float = 10.0) -> None:
        self._config = read_config(kubeconfig, context)
        self._timeout_seconds = timeout_seconds
        self._client = Client(self._config, self._parameters())

    def _parameters(self) -> ConnectionParams:
        # Proxies of the environment are for the world outside; a cluster's is in its kubeconfig.
        return ConnectionParams(timeout=httpx.Timeout(self._timeout_seconds), trust_env=False)

    def streams(self) -> httpx.AsyncClient:
        """A new client for the streams of one event loop."""
        parameters = self._parameters().httpx_params(self._config)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        del parameters["proxy"]
        return httpx.AsyncClient(**parameters, limits=limits)

    def close(self) -> None:
        """Close the connections of calls."""
        self._client.close()

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """An object, or a list of them."""
        return self._call("GET", path, query=query)

    def get_with_time(self, path: str) -> tuple[dict[str, Any], datetime]:
        """An object, and when the API server answered by its own clock."""
        answer, body = self._answer("GET", path)
        date = parsedate_to_datetime(answer.headers["Date"]) if "Date" in answer.headers else datetime.now(UTC)
        return body, date

    def create(self, path: str, document: Mapping[str, Any], **query: Any) -> dict[str, Any]:
        """Create an object."""
        return self._call("POST", path, document, query=query)

    def replace(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Replace an object, if it still has the version of the document."""
        return self._call("PUT", path, document)

    def patch(self, path: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change the named fields of an object."""
        return self._call("PATCH", path, changes, headers={"Content-Type": MERGE})

    def delete(self, path: str, **options: Any) -> None:
        """Delete an object; its dependents as the options say."""
        self._call("DELETE", path, options)

    def _call(
        self,
        method: str,
        path: str,
        document: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        return self._answer(method, path, document, query=query, headers=headers)[1]

    def _answer(
        self,
        method: str,
        path: str,
        document: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[httpx.Response, dict[str, Any]]:
        try:
            # An empty query would take the place of one in the path.
            answer = self._client.request(method, path, json=document, params=query or None, headers=headers)
            body: dict[str, Any] = answer.json() if answer.content else {}
        except (httpx.HTTPError, ConfigError, OSError) as error:
            raise EngineUnavailable(f"the Kubernetes API server does not answer: {describe(error)}") from error
        except ValueError as error:
            raise EngineUnavailable(f"the Kubernetes API server answers {answer.status_code} without JSON") from error
        if answer.status_code >= 400:
            raise_for(answer.status_code, body)
        return answer, body


def raise_for(status: int, body: Mapping[str, Any]) -> None:
    """Raise what an error of the API server means: a Refusal, or EngineUnavailable if it may answer otherwise later."""
    message, reason = str(body.get("message") or f"status {status}"), str(body.get("reason") or "")
    if status == 401:
        raise EngineUnavailable(
            f"Kubernetes does not know the agent ({message}): check the credentials in its kubeconfig"
        )
    if status == 403 and "exceeded quota" not in message and "is forbidden: User" in message:
        raise Forbidden(f"Kubernetes does not let the agent do it: {message}: see docs/engines/kubernetes.md")
    if status == 429 or status >= 500:
        raise NotNow(f"the Kubernetes API server cannot answer now: {message}")
    raise Refusal(status, reason, message)


def read_config(kubeconfig: str, context: str) -> SingleConfig:
    """The configuration of a file, else of KUBECONFIG, of the pod that this runs in, or of ~/.kube/config."""
    path = kubeconfig or _first_file(os.environ.get("KUBECONFIG", ""))
    try:
        # lightkube itself would look for a pod's service account before KUBECONFIG.
        config = KubeConfig.from_file(Path(path).expanduser()) if path else KubeConfig.from_env()
        single = config.get(context_name=context or None)
    except (ConfigError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if not path:
            raise OptionError(f"{_NOT_CONFIGURED} ({error})") from error
        source = "engineOptions.kubeconfig" if kubeconfig else "KUBECONFIG"
        raise OptionError(f"{source}: cannot be used: {error}") from error
    if single is None or not single.cluster.server:
        raise OptionError(_NOT_CONFIGURED)
    return single


def _first_file(paths: str) -> str:
    """The first file that there is of a list of paths, which are not put together; else the list."""
    return next((path for path in paths.split(os.pathsep) if Path(path).expanduser().is_file()), paths)


def describe(error: Exception) -> str:
    """What went wrong with a connection, in one line."""
    return str(error) or type(error).__name__
