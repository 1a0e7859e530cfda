"""
`Client`: every call to one admin.

A kind is given as a `Kind`, or by its noun, name or number. Errors are those of `ctl.client.errors.ClientError`. What
is tried again after a failure, and what never is, stands at the top of `ctl.client.transport`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from ctl.client.answers import Document
from ctl.client.calls.attributes import AttributeCalls
from ctl.client.calls.cluster_resources import ClusterResourceCalls
from ctl.client.calls.descriptions import DescriptionCalls
from ctl.client.calls.executions import ExecutionCalls
from ctl.client.calls.fleet import FleetCalls
from ctl.client.calls.grants import GrantCalls
from ctl.client.calls.projects import ProjectCalls
from ctl.client.calls.reconciliations import ReconciliationCalls
from ctl.client.calls.registrations import RegistrationCalls
from ctl.client.calls.service import ServiceCalls
from ctl.client.calls.token_pools import TokenPoolCalls
from ctl.client.calls.users import UserCalls
from ctl.client.transport import Transport

if TYPE_CHECKING:
    from ctl.client.contexts import Settings


class Client(
    AttributeCalls,
    ProjectCalls,
    TokenPoolCalls,
    FleetCalls,
    DescriptionCalls,
    ClusterResourceCalls,
    GrantCalls,
    RegistrationCalls,
    ExecutionCalls,
    ReconciliationCalls,
    ServiceCalls,
    UserCalls,
):
    """Talks to one admin; a context manager that closes its connections."""

    def __init__(
        self,
        endpoint: str,
        *,
        token: str | Callable[[], str] | None = None,
        ca_file: str | None = None,
        timeout: float = 30.0,
        retries: int = 2,
        on_stale: Callable[[int], None] | None = None,
        as_user: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """
        A client of the admin at `endpoint`, written as `ctl.client.endpoints` says.

        A function as `token` is called for each request. `ca_file` has the certificate authorities to trust for https;
        `timeout` is how many seconds to wait for an answer in each attempt, and `retries` how often a failed read is
        tried again. `on_stale` is called with the age in seconds of an answer that the admin gives from its memory,
        while its database is away. `as_user` is the user to act as; an older admin ignores that, which `whoami` tells.
        All that is done with the same `request_id` is one group of `history --by request`; by default each request has
        an id of its own.
        """
        self._transport = Transport(
            endpoint,
            token=token,
            ca_file=ca_file,
            timeout=timeout,
            retries=retries,
            on_stale=on_stale,
            as_user=as_user,
            request_id=request_id,
        )

    @classmethod
    def from_transport(cls, transport: Transport) -> Client:
        """A client that sends through `transport`, as a test does that answers the requests itself."""
        client = cls.__new__(cls)
        client._transport = transport
        return client

    @classmethod
    def from_environment(cls) -> Client:
        """A client for the context and the RAINBOW_* variables that rainbowctl would use."""
        from ctl.client.contexts import load_settings

        return cls.from_settings(load_settings({}))

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        *,
        timeout: float | None = None,
        retries: int = 2,
        on_stale: Callable[[int], None] | None = None,
        request_id: str | None = None,
    ) -> Client:
        """A client for the settings of a command line (`ctl.client.contexts.Settings`), with its token or login."""
        seconds = settings.timeout_seconds if timeout is None else timeout
        token: str | Callable[[], str] | None = settings.token()
        if token is None and settings.may_have_login:
            from ctl.client.logins import login_token

            token = login_token(settings, timeout=seconds)
        return cls(
            str(settings.endpoint.value),
            token=token,
            ca_file=settings.ca_file.value,
            timeout=seconds,
            retries=retries,
            on_stale=on_stale,
            as_user=settings.as_user,
            request_id=request_id,
        )

    @property
    def is_partial(self) -> bool:
        """Whether an answer had only what the caller may see of what was asked for."""
        return self._transport.is_partial

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def version(self) -> Document:
        """The version of the admin."""
        return self._read("version")
