"""Every configuration key: what it means and what it takes.

`config/rainbow.yaml` explains the same keys to people; a test keeps the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from admin.core import names
from admin.core.fields.branches import MapOf, Section
from admin.core.fields.compounds import FreeForm, ListOf, Record
from admin.core.fields.leaves import DNS_LABEL, ENTITY_NAME, Age, Boolean, Choice, Duration, Field, Integer, Leaf, Text
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.documents import CLUSTER_AUTH, DEFINITIONS, MEMBERS, STRATEGY
from admin.core.problems import Path, Problem, add_problem
from admin.core.resources import CLUSTER_RESOURCES
from admin.core.settings.builtin_kinds import TASK_RESOURCE, WORKFLOW_EXECUTION_CONFIG


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
        merged = {name: item for entry in entries for name, item in entry.items()}
        return {name: self._text(item, (*path, name), problems) for name, item in merged.items()}

    def _text(self, item: Any, path: Path, problems: list[Problem]) -> str:
        if isinstance(item, dict) and set(item) == {"value"}:
            item = item["value"]
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            reason = "is not text: write name: text, or name: {value: text}; valueFrom is not supported."
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
    **DEFINITIONS[FleetKind.CLUSTER].fields,
    "auth": Record(fields={names.camel(name): field for name, field in CLUSTER_AUTH.fields.items()}),
    "capacity": Record(fields=CLUSTER_RESOURCES.fields),
}

CONFIGURATION = Section(
    fields={
        "server": Section(
            fields={
                "host": Text(description="Address to listen on."),
                "port": Integer(minimum=0, maximum=65535, description="Port to listen on."),
                "workers": Integer(minimum=1, maximum=64, description="Processes that answer requests."),
                "threads": Integer(minimum=1, maximum=4096, description="Requests that one worker answers at once."),
                "apiTokenFile": Text(description="File with the bearer token that clients must send."),
                "allowedHosts": ListOf(
                    item=Text(max_length=255), description="Names that requests may call the admin by; '*' for any."
                ),
                "maxBodyBytes": Integer(minimum=1024, maximum=2**30, description="Largest request body."),
                "receiveSeconds": Integer(
                    minimum=1,
                    maximum=3600,
                    description="How long the head of a request, or a piece of its body, may take to arrive.",
                ),
                "gracefulShutdownSeconds": Integer(
                    minimum=0, maximum=3600, description="How long requests in flight may take to finish on shutdown."
                ),
                "tls": Section(
                    fields={
                        "certFile": Text(description="PEM certificate chain; with keyFile, the admin speaks https."),
                        "keyFile": Text(description="PEM private key of the certificate."),
                    }
                ),
            }
        ),
        "database": Section(
            fields={
                "url": Text(description="SQLAlchemy URL: sqlite:///file.db or postgresql+psycopg://…"),
                "poolSize": Integer(minimum=1, maximum=1000, description="Database connections a worker may hold."),
                "connectTimeoutSeconds": Integer(minimum=2, maximum=300, description="Time to connect to PostgreSQL."),
                "statementTimeoutSeconds": Integer(
                    minimum=1, maximum=3600, description="Time that PostgreSQL may take for one statement."
                ),
                "lockTimeoutSeconds": Integer(
                    minimum=1, maximum=3600, description="Wait for a lock of the database, or a free connection."
                ),
            }
        ),
        "logging": Section(
            fields={
                "level": Choice(words=("debug", "info", "warning", "error"), description="Least severity logged."),
                "format": Choice(words=("json", "text"), description="One JSON object a line, or plain text."),
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
        "attributes": Section(
            fields={
                "unknownNames": Choice(
                    words=("warn", "refuse"), description="What a write that names an unknown label, pool or tag gets."
                )
            }
        ),
        "task_resources": Section(fields=TASK_RESOURCE.payload.fields, description=TASK_RESOURCE.description),
        "workflow_execution_config": Section(
            fields=WORKFLOW_EXECUTION_CONFIG.payload.fields, description=WORKFLOW_EXECUTION_CONFIG.description
        ),
        "cluster_resources": Section(
            fields={
                "templateData": TemplateData(description="Template variables for every project and domain."),
                "customData": ListedMap(value=TemplateData(), description="Template variables by domain."),
            }
        ),
        "queues": Section(
            fields={
                "executionQueues": ListOf(
                    min_items=0,
                    description="Queues and the tags they serve.",
                    item=Record(
                        required=("dynamic",), fields={"dynamic": ENTITY_NAME, "attributes": ListOf(item=Text())}
                    ),
                ),
                "workflowConfigs": ListOf(
                    min_items=0,
                    description="Tags for executions that no attribute gives any, by domain or for all.",
                    item=Record(required=("tags",), fields={"domain": DNS_LABEL, "tags": ListOf(item=Text())}),
                ),
            }
        ),
        "qualityOfService": Section(
            fields={
                "tierExecutionValues": ListedMap(
                    value=Record(fields={"queueingBudget": Duration()}), description="What each tier means."
                ),
                "defaultTiers": ListedMap(
                    value=Choice(words=("UNDEFINED", "HIGH", "MEDIUM", "LOW")), description="The tier of each domain."
                ),
            }
        ),
        "clusters": Section(
            fields={
                "poolNameClusterMap": ListedMap(value=MEMBERS, description="Pools: their clusters and weights."),
                "labelClusterMap": ListedMap(value=MEMBERS, description="Labels: their clusters and weights."),
                "poolStrategies": ListedMap(value=STRATEGY, description="How each pool chooses; weighted."),
                "registration": Choice(
                    words=("open", "declared", "approve"),
                    description="Which names may register: any, those that are declared, or any once it is admitted.",
                ),
                "registrationSecretFile": Text(description="File with the secret that agents register with."),
                "clusterConfigs": ListOf(
                    min_items=0,
                    max_items=10_000,
                    description="The clusters.",
                    item=Record(required=("name",), fields=_CLUSTER),
                ),
                "defaultExecutionLabel": Text(description="The label of executions that nothing else places."),
                "defaultClusterPool": Text(description="The pool of executions that nothing else places."),
            }
        ),
        "clusterPools": Section(
            fields={
                "clusterPoolAssignments": ListedMap(
                    value=Record(required=("pool",), fields={"pool": ENTITY_NAME}),
                    description="The pool of each domain.",
                )
            }
        ),
        "placement": Section(
            fields={
                "requestMayOverride": ByDomain(
                    description="Whether a request may override where settings place it; by domain or for all."
                )
            }
        ),
        "agents": Section(
            fields={
                "leaseSeconds": Integer(
                    minimum=1, maximum=86_400, description="How long an agent may go on without being heard."
                ),
                "waitSeconds": Integer(minimum=0, maximum=60, description="How long a sync waits for news."),
                "unreachableSeconds": Integer(
                    minimum=1, maximum=86_400, description="Silence after which a cluster gets no new work."
                ),
                "lostSeconds": Integer(
                    minimum=2, maximum=604_800, description="Silence after which a cluster counts as lost."
                ),
                "giveUpAfter": Age(description="Silence after which nothing waits for a cluster any more."),
                "evictionsPerSecond": Integer(
                    minimum=1,
                    maximum=100_000,
                    description="The most executions of lost clusters decided again each second.",
                ),
                "logLimitBytes": Integer(
                    minimum=0, maximum=2**30, description="Bytes kept of each stream of each attempt."
                ),
                "outputLimitBytes": Integer(
                    minimum=0, maximum=2**24, description="Bytes kept of each declared output file."
                ),
            }
        ),
        "loops": Section(
            fields={
                "intervalMilliseconds": Integer(
                    minimum=10, maximum=60_000, description="How often the leader looks whether the fleet has changed."
                ),
                "leaseSeconds": Integer(
                    minimum=1, maximum=600, description="How long background work stands still when its leader dies."
                ),
            }
        ),
        "retention": Section(
            fields={
                "executions": Age(description="How long executions, with events and logs, are kept after their end."),
                "events": Age(description="How long events are kept: of executions after their end, of clusters."),
                "logs": Age(description="How long logs and output files are kept after the end of their execution."),
                "revisions": Age(description="How long revisions are kept; the last one always is."),
                "interval": Age(description="How often expired records are deleted."),
            }
        ),
        "kinds": MapOf(value=FreeForm(), max_entries=200, description="Kinds of the platform team's own."),
    }
)
