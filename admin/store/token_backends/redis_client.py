"""Clients of Redis: of one server, or of a cluster."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis import Redis
    from redis.cluster import RedisCluster

    Client = Redis | RedisCluster

_log = logging.getLogger("rainbow.tokens")
#: How long a call may take for which a transaction waits.
_BRIEF_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class RedisSettings:
    """Where Redis is, as Flyte's configuration says it."""

    host_paths: tuple[str, ...]  #: host:port; several are nodes of a cluster
    host_key: str = ""  #: the password
    max_retries: int = 0
    timeout_seconds: float = 5.0


def connect(settings: RedisSettings) -> Client:
    """A client of one server, or of a cluster; ImportError where its library is not installed."""
    from redis import ConnectionError, Redis
    from redis.backoff import ExponentialBackoff
    from redis.cluster import ClusterNode, RedisCluster
    from redis.retry import Retry

    nodes = [path.rpartition(":") for path in settings.host_paths]
    options: dict[str, Any] = {
        "password": settings.host_key or None,
        "socket_timeout": settings.timeout_seconds,
        "socket_connect_timeout": settings.timeout_seconds,
        # One that was waited for in vain is not repeated, but by a cluster, of which another node may answer.
        "retry": Retry(ExponentialBackoff(cap=1.0, base=0.05), settings.max_retries, (ConnectionError,)),
    }
    if len(nodes) > 1:
        start = [ClusterNode(host, int(port)) for host, _, port in nodes]  # type: ignore[no-untyped-call]
        return RedisCluster(startup_nodes=start, **options)
    [(host, _, port)] = nodes
    return Redis(host=host, port=int(port), **options)


def connect_briefly(settings: RedisSettings) -> Client:
    """The same for calls for which a transaction waits: they fail soon, and are repeated once at most.

    That is for a cluster that has failed over, of which the first call tells.
    """
    seconds = min(settings.timeout_seconds, _BRIEF_SECONDS)
    return connect(replace(settings, max_retries=min(settings.max_retries, 1), timeout_seconds=seconds))


def warn_of_evictions(client: Client) -> None:
    """Warn of a server that drops keys when its memory is full, and grants with them."""
    from redis import ResponseError

    try:
        answer = client.info("memory")
    except ResponseError:  # a user of Redis may be allowed no more than the scripts need
        return
    nodes = answer.values() if "maxmemory_policy" not in answer else [answer]
    policies = {node["maxmemory_policy"] for node in nodes if node.get("maxmemory")} - {"noeviction"}
    if policies:
        _log.warning(
            "Redis drops keys when its memory is full (maxmemory-policy %s), so that grants of tokens may be lost: set "
            "maxmemory-policy to noeviction.",
            ", ".join(sorted(policies)),
        )
