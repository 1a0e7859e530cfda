"""Every configuration key: what it takes, and its default if it is a single value.

`config/rainbow.yaml` says what each of them means; a test keeps the two together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from admin.configuration.pools import POOL_SETTINGS
from admin.core import names
from admin.core.cluster_resources.namespaces import DEFAULT_PATTERN
from admin.core.fields.branches import MapOf, Section
from admin.core.fields.compounds import FreeForm, ListOf, Record
from admin.core.fields.leaves import (
    DNS_LABEL,
    ENTITY_NAME,
    Age,
    Boolean,
    Choice,
    Duration,
    Field,
    Integer,
    Leaf,
    Text,
    nullable,
)
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.documents import CLUSTER_AUTH, DEFINITIONS, MEMBERS, STRATEGY
from admin.core.graph.descriptions import MOST_VERTICES
from admin.core.placement.constraints.rules import RULES
from admin.core.problems import Path, Problem, add_problem
from admin.core.resources import CLUSTER_RESOURCES
from admin.core.settings.builtin_kinds import (
    EXECUTION_QUOTA,
    TASK_RESOURCE,
    TEMPLATE_VARIABLES,
    WORKFLOW_EXECUTION_CONFIG,
)
from admin.core.token_pools.definitions import MOST_TOKENS


def key_values(section: Section, document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a section's document, each with its key; maps and lists are one value each."""
    for name, value in document.items():
        field, key = section.fields[name], f"{prefix}{name}"
        if isinstance(field, Section) and value:
            yield from key_values(field, value, f"{key}.")
        else:
            yield key, value


@dataclass(frozen=True, kw_only=True)
class NamedRecord(Record):
    """A record that may also be written as its id alone."""

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        return super().parse({"id": value} if isinstance(value, str) else value, path, problems)


@dataclass(frozen=True, kw_only=True)
class TemplateData(Leaf):
    """Template variables, as `name: text` or in Flyte's form `name: {value: text}`; a list of such maps will do."""

    phrase = "a mapping of variables"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        entries = value if isinstance(value, list) else [value]
        if not all(isinstance(entry, dict) for entry in entries):
            raise self.wrong_type()
        merged = {str(name): item for entry in entries for name, item in entry.items()}
        for name in merged:
            TEMPLATE_VARIABLES.check_key(name, path, problems)
        return {name: self._text(item, (*path, name), problems) for name, item in merged.items()}

    def _text(self, item: Any, path: Path, problems: list[Problem]) -> str | dict[str, Any]:
        """A text, or where it is to be had from: {valueFrom: {env: NAME}} or {valueFrom: {filePath: /path}}."""
        if isinstance(item, dict) and set(item) == {"value"}:
            item = item["value"]
        if isinstance(item, dict) and set(item) == {"valueFrom"}:
            source = item["valueFrom"]
            is_single = isinstance(source, dict) and len(source) == 1 and set(source) <= {"env", "filePath"}
            if is_single and all(isinstance(name, str) and name for name in source.values()):
                return {"valueFrom": dict(source)}
            add_problem(problems, path, "valueFrom takes one of env: NAME and filePath: /path.")
            return ""
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            reason = "is not text: write name: text, name: {value: text}, or name: {valueFrom: {env: NAME}}."
            add_problem(problems, path, reason)
        return str(item)


@dataclass(frozen=True, kw_only=True)
class ListedMap(MapOf):
    """A map that may also be written as a list of maps, as Flyte's files do to keep upper case."""

    def read_branch(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
            value = {name: item for entry in value for name, item in entry.items()}
        return super().read_branch(value, path, problems)


@dataclass(frozen=True, kw_only=True)
class ByDomain(Leaf):
    """One boolean for every domain, or a mapping of domains to booleans."""

    phrase = "a boolean or a mapping of domains to booleans"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> bool | dict[str, bool]:
        if isinstance(value, dict):
            return {domain: Boolean().read(item, (*path, str(domain)), problems) for domain, item in value.items()}
        if not isinstance(value, bool):
            raise self.wrong_type()
        return value


#: The fields of a cluster's definition, in the spelling of the file and each set as a whole.
_CLUSTER: dict[str, Field] = {
    "name": ENTITY_NAME,
    **{names.camel(name): field for name, field in DEFINITIONS[FleetKind.CLUSTER].fields.items()},
    "auth": Record(fields={names.camel(name): field for name, field in CLUSTER_AUTH.fields.items()}),
    "capacity": Record(fields=CLUSTER_RESOURCES.fields),
}

#: A scope of OAuth: printable, without blanks, quotes and backslashes.
_SCOPE = r"[\x21\x23-\x5b\x5d-\x7e]+"

#: An empty map in it replaces the default.
_section = partial(Section, keeps_empty=True)

#: How many requests and creations a user or project may make in a second.
_RATES = _section(
    fields={
        "requestsPerSecond": Integer(minimum=1, maximum=1_000_000),
        "creationsPerSecond": Integer(minimum=1, maximum=1_000_000),
    }
)

CONFIGURATION = _section(
    fields={
        "server": _section(
            fields={
                "host": Text(default="127.0.0.1"),
                "port": Integer(minimum=0, maximum=65535, default=8088),
                "workers": Integer(minimum=1, maximum=64, default=2),
                "threads": Integer(minimum=1, maximum=4096, default=1100),
                "apiTokenFile": Text(),
                "serveOpenly": Boolean(default=False),
                "allowedHosts": ListOf(item=Text(max_length=255)),
                "maxBodyBytes": Integer(minimum=1024, maximum=2**30, default=1024 * 1024),
                "receiveSeconds": Integer(minimum=1, maximum=3600, default=15),
                "gracefulShutdownSeconds": Integer(minimum=0, maximum=3600, default=10),
                "tls": _section(
                    fields={
                        "certFile": Text(),
                        "keyFile": Text(),
                    }
                ),
            }
        ),
        "openid": _section(
            fields={
                "issuer": Text(max_length=2048),
                "audience": Text(max_length=1024),
                "clientId": Text(max_length=1024),
                "scopes": ListOf(
                    item=Text(pattern=_SCOPE, rule="one word", max_length=1024), default=["openid", "offline_access"]
                ),
                "userClaim": Text(max_length=255, default="sub"),
                "groupsClaim": Text(max_length=255, default="groups"),
                "leewaySeconds": Integer(minimum=0, maximum=300, default=30),
            }
        ),
        "limits": _section(
            fields={
                "wrongTokensPerMinute": Integer(minimum=1, maximum=1_000_000, default=60),
                "user": _RATES,
                "project": _RATES,
            }
        ),
        "database": _section(
            fields={
                "url": Text(),
                "poolSize": Integer(minimum=1, maximum=1000, default=10),
                "connectTimeoutSeconds": Integer(minimum=2, maximum=300, default=5),
                "statementTimeoutSeconds": Integer(minimum=1, maximum=3600, default=30),
                "lockTimeoutSeconds": Integer(minimum=1, maximum=3600, default=10),
            }
        ),
        "resourcemanager": _section(
            fields={
                "type": Choice(words=("noop", "database", "redis"), default="database"),
                "taskTypes": MapOf(value=FreeForm(), max_entries=200),
                "resourceMaxQuota": Integer(minimum=1, maximum=MOST_TOKENS, default=1000),
                "redis": _section(
                    fields={
                        # Empty ones are as none: Flyte writes them so.
                        "hostPaths": ListOf(item=Text(max_length=300), min_items=0, max_items=64),
                        "hostPath": Text(min_length=0, max_length=300),
                        "primaryName": Text(min_length=0, max_length=300),
                        "hostKey": Text(min_length=0),
                        "maxRetries": Integer(minimum=0, maximum=10, default=0),
                        "longestLeaseSeconds": Integer(minimum=1, maximum=86_400, default=60),
                    }
                ),
            }
        ),
        "logging": _section(
            fields={
                "level": Choice(words=("debug", "info", "warning", "error"), default="info"),
                "format": Choice(words=("json", "text"), default="json"),
            }
        ),
        "domains": ListOf(item=NamedRecord(required=("id",), fields={"id": DNS_LABEL, "name": Text(max_length=64)})),
        "projects": ListOf(
            min_items=0,
            max_items=10_000,
            item=NamedRecord(
                required=("id",),
                fields={
                    "id": DNS_LABEL,
                    "name": Text(max_length=64),
                    "description": Text(max_length=300),
                    "labels": FreeForm(),
                },
            ),
        ),
        "attributes": _section(fields={"unknownNames": Choice(words=("warn", "refuse"), default="warn")}),
        "task_resources": _section(fields=TASK_RESOURCE.payload.fields),
        "workflow_execution_config": _section(fields=WORKFLOW_EXECUTION_CONFIG.payload.fields),
        "execution_quota": _section(
            fields={name: nullable(field) for name, field in EXECUTION_QUOTA.payload.fields.items()}
        ),
        "cluster_resources": _section(
            fields={
                "templatePath": Text(),
                "templateData": TemplateData(),
                "customData": ListedMap(value=TemplateData()),
                "pruneNamespaces": Boolean(default=False),
                "refreshInterval": Duration(default="1m"),
            }
        ),
        "namespace_mapping": _section(fields={"template": Text(max_length=255, default=DEFAULT_PATTERN)}),
        "queues": _section(
            fields={
                "executionQueues": ListOf(
                    min_items=0,
                    item=Record(
                        required=("dynamic",), fields={"dynamic": ENTITY_NAME, "attributes": ListOf(item=Text())}
                    ),
                ),
                "workflowConfigs": ListOf(
                    min_items=0,
                    item=Record(required=("tags",), fields={"domain": DNS_LABEL, "tags": ListOf(item=Text())}),
                ),
            }
        ),
        "qualityOfService": _section(
            fields={
                "tierExecutionValues": ListedMap(value=Record(fields={"queueingBudget": Duration()})),
                "defaultTiers": ListedMap(value=Choice(words=("UNDEFINED", "HIGH", "MEDIUM", "LOW"))),
            }
        ),
        "clusters": _section(
            fields={
                "registration": Choice(words=("open", "declared", "approve"), default="open"),
                "registrationSecretFile": Text(),
                "maxVertices": Integer(minimum=1, maximum=10_000_000, default=MOST_VERTICES),
                "poolNameClusterMap": ListedMap(value=MEMBERS),
                "labelClusterMap": ListedMap(value=MEMBERS),
                "poolStrategies": ListedMap(value=STRATEGY),
                "poolRules": ListedMap(value=RULES),
                "poolSettings": ListedMap(value=POOL_SETTINGS),
                "clusterConfigs": ListOf(
                    min_items=0,
                    max_items=10_000,
                    item=Record(required=("name",), fields=_CLUSTER),
                ),
                "defaultExecutionLabel": Text(),
                "defaultClusterPool": Text(),
            }
        ),
        "clusterPools": _section(
            fields={"clusterPoolAssignments": ListedMap(value=Record(required=("pool",), fields={"pool": ENTITY_NAME}))}
        ),
        "placement": _section(
            fields={
                "requestMayOverride": ByDomain(default=True),
                "clusterUse": Choice(words=("open", "closed"), default="open"),
                "graphBackend": Text(max_length=64, default="memory"),
                "askDeadline": Duration(default="3s"),
            }
        ),
        "agents": _section(
            fields={
                "leaseSeconds": Integer(minimum=1, maximum=86_400, default=60),
                "waitSeconds": Integer(minimum=0, maximum=60, default=30),
                "unreachableSeconds": Integer(minimum=1, maximum=86_400, default=90),
                "lostSeconds": Integer(minimum=2, maximum=604_800, default=300),
                "giveUpAfter": Age(default="24h"),
                "evictionsPerSecond": Integer(minimum=1, maximum=100_000, default=50),
                "logLimitBytes": Integer(minimum=0, maximum=2**30, default=1024 * 1024),
                "outputLimitBytes": Integer(minimum=0, maximum=2**30, default=1024 * 1024),
            }
        ),
        "loops": _section(
            fields={
                "intervalMilliseconds": Integer(minimum=10, maximum=60_000, default=100),
                "leaseSeconds": Integer(minimum=1, maximum=600, default=5),
            }
        ),
        "retention": _section(
            fields={
                "executions": Age(),
                "events": Age(),
                "logs": Age(),
                "revisions": Age(),
                "audit": Age(),
                "descriptions": Age(),
                "bids": Age(),
                "namespaces": Age(),
                "interval": Age(default="1h"),
            }
        ),
        "audit": _section(fields={"file": Text()}),
        "console": _section(
            fields={
                "sessionDuration": Age(default="12h"),
                "liveStreams": Integer(minimum=0, maximum=10_000, default=256),
            }
        ),
        "roles": MapOf(
            key_pattern=names.DNS_LABEL,
            key_rule=names.DNS_LABEL_RULE,
            max_entries=200,
            value=Record(
                required=("permissions",),
                fields={"description": Text(max_length=1000), "permissions": ListOf(item=Text(max_length=100))},
            ),
        ),
        "kinds": MapOf(value=FreeForm(), max_entries=200),
    }
)
