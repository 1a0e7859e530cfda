"""Settings: the whole configuration in the form in which the services use it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from admin.configuration.external_values import ExternalSource
from admin.configuration.keys import CONFIGURATION, key_values
from admin.core.cluster_resources.namespaces import NamespacePattern
from admin.core.executions.launches import Rules
from admin.core.fleet.definitions import Definition
from admin.core.hosts import is_loopback
from admin.core.permissions import Role
from admin.core.retention import Retention
from admin.core.settings.kinds import Kinds
from admin.core.settings.platform import PlatformValues


@dataclass(frozen=True, kw_only=True)
class Domain:
    """One domain, from configuration."""

    id: str
    name: str


@dataclass(frozen=True, kw_only=True)
class SeedProject:
    """A project that exists from the start."""

    id: str
    name: str
    description: str = ""
    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Server:
    """Where and how the admin listens."""

    host: str
    port: int
    workers: int
    threads: int
    max_body_bytes: int
    receive_seconds: int
    graceful_shutdown_seconds: int
    api_token_file: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None
    allowed_hosts: Sequence[str] = ()
    serve_openly: bool = False  #: also beyond loopback, without users and without a token


@dataclass(frozen=True, kw_only=True)
class OpenId:
    """The OpenID provider whose access tokens prove users."""

    issuer: str
    audience: str  #: that tokens must be for
    scopes: Sequence[str]  #: that rainbowctl asks for
    user_claim: str
    groups_claim: str
    leeway_seconds: int
    client_id: str | None = None  #: of rainbowctl at the provider; None where it cannot log in


@dataclass(frozen=True, kw_only=True)
class Rates:
    """How many requests and creations a user or project may make in a second; None where there is no limit."""

    requests_per_second: int | None = None
    creations_per_second: int | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How often something may be asked before it is refused for a while."""

    wrong_tokens_per_minute: int
    user: Rates
    project: Rates


@dataclass(frozen=True, kw_only=True)
class ResourceManager:
    """Where grants of tokens are kept, in Flyte's words."""

    type: str  #: noop, database or redis
    resource_max_quota: int  #: the largest capacity that a pool may be given
    host_paths: tuple[str, ...]  #: of Redis, host:port; several are nodes of a cluster
    host_key: str  #: the password of Redis
    max_retries: int
    longest_lease_seconds: int  #: for which Redis grants nothing after it has lost its state

    @property
    def grants_everything(self) -> bool:
        """Whether token pools bound nothing."""
        return self.type == "noop"


@dataclass(frozen=True, kw_only=True)
class Agents:
    """How agents register and sync, and when their clusters count as lost."""

    registration: str
    secret_file: str | None
    lease_seconds: int
    wait_seconds: int
    unreachable_seconds: int
    lost_seconds: int
    give_up_seconds: float
    evictions_per_second: int
    log_limit_bytes: int
    output_limit_bytes: int

    @property
    def log_tail_bytes(self) -> int:
        """How much is kept of the end of a stream that is longer than the limit; the rest is of its beginning."""
        return self.log_limit_bytes - self.log_limit_bytes // 4

    @property
    def retry_seconds(self) -> float:
        """How long an agent waits before it repeats a sync that failed or found no room to wait."""
        return min(5, self.lease_seconds / 4)


@dataclass(frozen=True, kw_only=True)
class ClusterResources:
    """What the namespaces of projects are made of."""

    template_path: str | None  #: the directory of templates; None for the built-in ones
    namespaces: NamespacePattern
    external_values: tuple[ExternalSource, ...]  #: values that are read from the environment and from files
    prune_namespaces: bool  #: whether namespaces, volume claims and secrets that are no longer rendered are deleted
    refresh_seconds: float  #: how often agents look whether objects were changed by others


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The whole configuration, typed."""

    server: Server
    openid: OpenId | None  #: None where no issuer is configured
    limits: Limits
    database_url: str
    database_pool_size: int
    database_connect_seconds: int
    database_statement_seconds: int
    database_lock_seconds: int
    resource_manager: ResourceManager
    log_level: str
    log_format: str
    domains: tuple[Domain, ...]
    projects: tuple[SeedProject, ...]
    refuse_unknown_names: bool
    kinds: Kinds
    platform: PlatformValues
    rules: Rules  #: of executions
    fleet: tuple[Definition, ...]  #: the clusters, pools and labels that configuration declares
    agents: Agents
    cluster_resources: ClusterResources
    roles: Mapping[str, Role]  #: the built-in ones, and those that configuration declares
    is_cluster_use_closed: bool  #: whether clusters are only for those to whom their use is granted
    graph_backend: str  #: what keeps the graphs of described clusters, one that `graph_backends` finds
    max_vertices: int  #: of a cluster's description
    ask_deadline_seconds: float  #: how long clusters have for a bid, unless their pool says otherwise
    loop_interval_seconds: float
    loop_lease_seconds: float
    retention: Retention
    retention_interval_seconds: float
    console_session_seconds: float  #: after which users of the console sign in again
    most_live_streams: int  #: of open pages of the console, in each worker
    audit_file: str | None  #: gets a line for each audit event; `-` is standard output
    document: Mapping[str, Any]  #: the whole configuration as it is in force
    sources: Mapping[str, str]  #: where each value comes from that is no default, by its key

    @property
    def needs_token(self) -> bool:
        """Whether every request needs a token even where there are no users."""
        server = self.server
        has_issuer = server.api_token_file is not None or self.openid is not None
        return has_issuer or not (server.serve_openly or is_loopback(server.host))

    @property
    def accepted_hosts(self) -> frozenset[str] | None:
        """The names that requests may call the admin by besides loopback's; None for any.

        Any name will do where a token is needed, unless some are configured: a page that reached the admin by a name of
        its own would not have the token.
        """
        allowed = self.server.allowed_hosts
        if "*" in allowed or (self.needs_token and not allowed):
            return None
        return frozenset({self.server.host, *allowed})

    @property
    def shown_database_url(self) -> str:
        """The URL of the database without its password."""
        return _without_password(self.database_url)

    @property
    def shown_document(self) -> dict[str, Any]:
        """The whole configuration without passwords."""
        database = dict(self.document["database"])
        if "url" in database:
            database["url"] = _without_password(database["url"])
        manager = dict(self.document["resourcemanager"])
        if manager["redis"].get("hostKey"):
            manager["redis"] = {**manager["redis"], "hostKey": "hidden"}
        return {**self.document, "database": database, "resourcemanager": manager}

    @property
    def shown_values(self) -> dict[str, Any]:
        """Each value of the configuration by its key, such as `server.port`, without passwords."""
        values = dict(key_values(CONFIGURATION, self.shown_document))
        return {"database.url": self.shown_database_url, **values}

    def domain_ids(self) -> list[str]:
        """The ids of the domains, in configured order."""
        return [domain.id for domain in self.domains]


def _without_password(url: str) -> str:
    """A URL without what stands between the user and the last '@', and without passwords among its parameters."""
    try:
        parsed = make_url(re.sub("://([^:/@]*):.*@", r"://\1:hidden@", url))
    except (ArgumentError, ValueError):  # what cannot be read may hold one anywhere
        return url.partition(":")[0]
    masked = {key: "hidden" for key in parsed.query if "password" in key.lower()}
    return parsed.update_query_dict(masked).render_as_string(hide_password=True)
