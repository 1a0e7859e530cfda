"""The built-in kinds, with the numbers and names that they have in Flyte."""

from __future__ import annotations

from dataclasses import replace

from admin.core import names
from admin.core.fields.branches import KeyedList, MapOf, Section
from admin.core.fields.compounds import FreeForm, ListOf, Record
from admin.core.fields.leaves import ENTITY_NAME, Boolean, Duration, Integer, Number, Quantity, Text, numbered_choice
from admin.core.resources import TASK_RESOURCES
from admin.core.settings.kinds import Kind, Merge, NameList
from admin.core.settings.scopes import Level
from admin.core.token_pools import limits
from admin.core.token_pools.definitions import tokens_field


def _task_resource_spec(description: str) -> Section:
    storage = Quantity(description="Accepted for Flyte's files; nothing reads it. Use ephemeral_storage.")
    order = ("cpu", "gpu", "memory", "storage", "ephemeral_storage")
    return Section(description=description, fields={name: TASK_RESOURCES.get(name, storage) for name in order})


#: What is said of fields that agents get with each execution, for engines of one's own.
PASSED_ON = "Passed to agents; no engine of Rainbow reads it."
#: What is said of fields that jobs of Kubernetes have, and those of other engines do not.
KUBERNETES_ONLY = "Of Rainbow's engines, Kubernetes alone reads it."
#: The engines of Rainbow, by the names that agents report; any other is somebody's own.
ENGINES = frozenset({"local", "slurm", "kubernetes", "flux"})

_SHORT = Text(max_length=255)
LINES = Text(pattern=r"[^\x00-\x08\x0b-\x1f\x7f]*", min_length=0, max_length=16384)

LABEL_VALUES = MapOf(
    description="Kubernetes labels for the execution.",
    key_pattern=names.QUALIFIED_NAME,
    key_rule=names.QUALIFIED_NAME_RULE,
    value=Text(pattern=names.LABEL_VALUE, rule=names.LABEL_VALUE_RULE, min_length=0, max_length=63),
)
ANNOTATION_VALUES = replace(
    LABEL_VALUES, description=f"Kubernetes annotations for the execution. {KUBERNETES_ONLY}", value=LINES
)

TASK_RESOURCE = Kind(
    number=0,
    name="TASK_RESOURCE",
    noun="task-resource-attribute",
    payload_key="task_resource_attributes",
    description="Resources a task gets when it asks for none (defaults), and the most it may ask for (limits).",
    merge=Merge.LEAF,
    payload=Section(
        fields={
            "defaults": _task_resource_spec("What a task gets that asks for nothing."),
            "limits": _task_resource_spec("The most that a task may ask for."),
        }
    ),
    unread=(("defaults", "storage"), ("limits", "storage")),
    example={"defaults": {"cpu": "1", "memory": "150Mi"}, "limits": {"cpu": "2", "memory": "450Mi"}},
)

TEMPLATE_VARIABLES = MapOf(
    description="Template variables and what to fill in; names are case-sensitive.",
    key_pattern=r"[A-Za-z_][A-Za-z0-9_.-]{0,254}",
    key_rule="letters, digits, '_', '.' and '-', at most 255, starting with a letter or '_'",
    reserved=("namespace", "project", "domain"),
    value=LINES,
)

CLUSTER_RESOURCE = Kind(
    number=1,
    name="CLUSTER_RESOURCE",
    noun="cluster-resource-attribute",
    payload_key="cluster_resource_attributes",
    description="Values for the templates from which a project's namespace is made, such as its quota.",
    levels=(Level.DOMAIN, Level.PROJECT, Level.PROJECT_DOMAIN),
    merge=Merge.LEAF,
    payload=Section(fields={"attributes": TEMPLATE_VARIABLES}),
    example={"attributes": {"projectQuotaCpu": "1000", "projectQuotaMemory": "5Ti"}},
)

EXECUTION_QUEUE = Kind(
    number=2,
    name="EXECUTION_QUEUE",
    noun="execution-queue-attribute",
    payload_key="execution_queue_attributes",
    description="Tags by which an execution finds its queue; the first that some queue serves counts.",
    payload=Section(fields={"tags": ListOf(item=_SHORT, description="Queue tags, the preferred one first.")}),
    refers_to={("tags",): NameList.QUEUE_TAG},
    example={"tags": ["critical", "gpu"]},
)

EXECUTION_CLUSTER_LABEL = Kind(
    number=3,
    name="EXECUTION_CLUSTER_LABEL",
    noun="execution-cluster-label",
    payload_key="execution_cluster_label",
    description="The label whose clusters run the executions of this scope.",
    payload=Section(fields={"value": replace(ENTITY_NAME, description="Name of a label, or of a single cluster.")}),
    refers_to={("value",): NameList.LABEL},
    example={"value": "mycluster"},
)

QUALITY_OF_SERVICE = Kind(
    number=4,
    name="QUALITY_OF_SERVICE_SPECIFICATION",
    noun="quality-of-service",
    payload_key="quality_of_service",
    description="How urgent executions are: a tier, or how long they may wait in the queue.",
    payload=Section(
        exclusive=("tier", "spec"),
        fields={
            "tier": numbered_choice("UNDEFINED", "HIGH", "MEDIUM", "LOW", description="A named urgency."),
            "spec": Section(
                fields={"queueing_budget": Duration(description="The longest wait before running, such as 600s.")}
            ),
        },
    ),
    example={"tier": "HIGH"},
)

PLUGIN_OVERRIDE = Kind(
    number=5,
    name="PLUGIN_OVERRIDE",
    noun="plugin-override",
    payload_key="plugin_overrides",
    description="Which plugins serve a task type, tried in order.",
    merge=Merge.LEAF,
    payload=Section(
        fields={
            "overrides": KeyedList(
                key="task_type",
                marker="plugin_id",
                description="One entry a task type; plugin_id null unsets that task type.",
                entry=Record(
                    required=("task_type", "plugin_id"),
                    fields={
                        "task_type": _SHORT,
                        "plugin_id": ListOf(item=_SHORT, description="Plugins, the preferred one first."),
                        "missing_plugin_behavior": numbered_choice(
                            "FAIL", "USE_DEFAULT", description="What to do where no listed plugin is offered."
                        ),
                    },
                ),
            )
        }
    ),
    example={"overrides": [{"task_type": "python", "plugin_id": ["a", "b"], "missing_plugin_behavior": "USE_DEFAULT"}]},
)

_SECRET = Record(
    fields={
        "group": _SHORT,
        "group_version": _SHORT,
        "key": _SHORT,
        "mount_requirement": numbered_choice("ANY", "ENV_VAR", "FILE"),
        "env_var": _SHORT,
    },
    drop_empty=True,
)
_OAUTH2_CLIENT = Record(fields={"client_id": _SHORT, "client_secret": _SECRET}, drop_empty=True)

_SECURITY_CONTEXT = Section(
    description="Who the work runs as, and the secrets it sees.",
    fields={
        "run_as": Record(
            description=f"One identity, inherited as a whole so that none is mixed from two levels. {KUBERNETES_ONLY}",
            drop_empty=True,
            fields={
                "iam_role": _SHORT,
                "k8s_service_account": _SHORT,
                "oauth2_client": _OAUTH2_CLIENT,
                "execution_identity": _SHORT,
            },
        ),
        "secrets": ListOf(item=_SECRET, description=f"Secrets to mount. {PASSED_ON}"),
        "tokens": ListOf(
            description=f"OAuth2 tokens to fetch. {PASSED_ON}",
            item=Record(
                drop_empty=True,
                fields={
                    "name": _SHORT,
                    "type": numbered_choice("CLIENT_CREDENTIALS"),
                    "client": _OAUTH2_CLIENT,
                    "idp_discovery_endpoint": _SHORT,
                    "token_endpoint": _SHORT,
                },
            ),
        ),
    },
)

_EXECUTION_ENV_ASSIGNMENTS = ListOf(
    description=f"Execution environments for single nodes or task types. {PASSED_ON}",
    item=Record(
        fields={
            "node_ids": ListOf(item=_SHORT),
            "task_type": _SHORT,
            "execution_env": Record(
                fields={"name": _SHORT, "type": _SHORT, "extant": FreeForm(), "spec": FreeForm(), "version": _SHORT}
            ),
        }
    ),
)

WORKFLOW_EXECUTION_CONFIG = Kind(
    number=6,
    name="WORKFLOW_EXECUTION_CONFIG",
    noun="workflow-execution-config",
    payload_key="workflow_execution_config",
    description="Defaults for how executions run: parallelism, identity, output prefix, labels, environment.",
    merge=Merge.LEAF,
    payload=Section(
        fields={
            "max_parallelism": Integer(
                minimum=0,
                maximum=2**31 - 1,
                description=f"Most nodes of one execution at once; 0 for no limit. {PASSED_ON}",
            ),
            "security_context": _SECURITY_CONTEXT,
            "raw_output_data_config": Section(
                fields={"output_location_prefix": Text(max_length=2048, description="Where output data goes.")}
            ),
            "labels": Section(fields={"values": LABEL_VALUES}),
            "annotations": Section(fields={"values": ANNOTATION_VALUES}),
            "interruptible": Boolean(wrapped=True, description=f"Whether spot machines will do. {KUBERNETES_ONLY}"),
            "overwrite_cache": Boolean(description=f"Whether cached results are computed anew. {PASSED_ON}"),
            "envs": Section(
                fields={
                    "values": KeyedList(
                        key="key",
                        marker="value",
                        description="Environment variables; value null unsets one.",
                        entry=Record(
                            required=("key", "value"),
                            fields={
                                "key": Text(pattern=names.ENV_NAME, rule=names.ENV_NAME_RULE, max_length=255),
                                "value": Text(pattern=r"[^\x00]*", min_length=0, max_length=16384),
                            },
                        ),
                    )
                }
            ),
            "execution_env_assignments": _EXECUTION_ENV_ASSIGNMENTS,
        }
    ),
    unread=(
        *(("max_parallelism",), ("security_context", "secrets"), ("security_context", "tokens")),
        *(("overwrite_cache",), ("execution_env_assignments",)),
    ),
    example={
        "max_parallelism": 5,
        "security_context": {"run_as": {"k8s_service_account": "default"}},
        "labels": {"values": {"team": "search"}},
        "interruptible": True,
    },
)

CLUSTER_ASSIGNMENT = Kind(
    number=7,
    name="CLUSTER_ASSIGNMENT",
    noun="cluster-pool-attribute",
    payload_key="cluster_assignment",
    description="The cluster pool that runs the executions of this scope.",
    payload=Section(fields={"cluster_pool_name": replace(ENTITY_NAME, description="Name of a cluster pool.")}),
    refers_to={("cluster_pool_name",): NameList.POOL},
    example={"cluster_pool_name": "gpu"},
)

TOKEN_POOL_QUOTA = Kind(
    number=8,
    name=limits.TOKEN_POOL_QUOTA,
    noun="token-pool-quota",
    payload_key="token_pool_quota",
    description="The most tokens of token pools that everything at and below a scope may hold together.",
    merge=Merge.TIGHTEST,
    payload=Section(
        fields={
            limits.QUOTAS: MapOf(
                key_pattern=names.ENTITY_NAME,
                key_rule=names.ENTITY_NAME_RULE,
                value=tokens_field("The most tokens of a pool; 0 grants none."),
                description="The most tokens, by pool; every row that applies holds.",
            ),
            limits.WEIGHT: Number(
                minimum=0.001,
                maximum=1000,
                description="How large a project's share is beside others that wait; the most specific row counts.",
            ),
        }
    ),
    refers_to={(limits.QUOTAS,): NameList.TOKEN_POOL},
    overriding=((limits.WEIGHT,),),
    example={limits.QUOTAS: {"hive": 5}},
)


def _most(description: str) -> Integer:
    return Integer(minimum=0, maximum=10**9, nullable=False, description=description)


EXECUTION_QUOTA = Kind(
    number=9,
    name="EXECUTION_QUOTA",
    noun="execution-quota",
    payload_key="execution_quota",
    description="The most executions, and the most that they may use, of everything at and below a scope together.",
    merge=Merge.TIGHTEST,
    payload=Section(
        fields={
            "running": _most("Executions that an agent has at once; others wait."),
            "waiting": _most("Executions that wait at once; further ones are refused."),
            "cpu": replace(TASK_RESOURCES["cpu"], nullable=False, description="Cores of those that run, such as 200."),
            "memory": replace(
                TASK_RESOURCES["memory"], nullable=False, description="Bytes of memory of those that run, such as 2Ti."
            ),
            "gpu": replace(TASK_RESOURCES["gpu"], nullable=False, description="Whole GPUs of those that run."),
        }
    ),
    example={"running": 20, "waiting": 500, "cpu": "200", "memory": "1Ti", "gpu": "8"},
)

BUILTIN_KINDS = (
    TASK_RESOURCE,
    CLUSTER_RESOURCE,
    EXECUTION_QUEUE,
    EXECUTION_CLUSTER_LABEL,
    QUALITY_OF_SERVICE,
    PLUGIN_OVERRIDE,
    WORKFLOW_EXECUTION_CONFIG,
    CLUSTER_ASSIGNMENT,
    TOKEN_POOL_QUOTA,
    EXECUTION_QUOTA,
)
