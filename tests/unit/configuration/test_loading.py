from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

from admin.configuration import OpenId, Settings, environment_variables, load_settings
from admin.configuration.defaults import single_values
from admin.configuration.keys import CONFIGURATION, ByDomain, ListedMap, TemplateData
from admin.core.fields.branches import Branch, KeyedList, MapOf, Section
from admin.core.fields.compounds import FreeForm, ListOf, Record
from admin.core.fields.leaves import Field
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import Fleet, build_fleet
from admin.core.problems import Invalid, Problem
from admin.core.retention import Retention
from tests.support.small_fleets import POOLS_SAMPLE


def load(tmp_path: Path, text: str, environment: dict[str, str] | None = None, **overrides: Any) -> Any:
    file = tmp_path / "rainbow.yaml"
    file.write_text(text)
    return load_settings(str(file), environment or {}, overrides)


def fleet(settings: Settings) -> Fleet:
    """The fleet that configuration alone declares."""
    return build_fleet(0, list(settings.fleet), {})


def fields(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(Invalid) as caught:
        load(tmp_path, text)
    return [problem.field for problem in caught.value.problems]


def test_defaults_are_enough_to_start() -> None:
    settings = load_settings()
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8088)
    assert settings.domain_ids() == ["development", "staging", "production"]
    assert [project.id for project in settings.projects] == ["flyteexamples", "flytesnacks"]
    assert "mycluster" in fleet(settings).label_names()
    assert settings.kinds.find("workflow-priority").number == 10
    assert settings.database_url.startswith("sqlite:////")


def test_the_command_line_overrides_variables_and_variables_override_the_file(tmp_path: Path) -> None:
    text = "server: {port: 1, workers: 1}\nlogging: {level: debug}\n"
    settings = load(tmp_path, text, {"RAINBOW_SERVER_PORT": "2", "RAINBOW_LOGGING_LEVEL": "error"}, server={"port": 3})
    assert (settings.server.port, settings.server.workers, settings.log_level) == (3, 1, "error")


def test_an_openid_provider_is_one_with_an_issuer(tmp_path: Path) -> None:
    assert load_settings().openid is None
    assert (load_settings().needs_token, load_settings().accepted_hosts) == (False, frozenset({"127.0.0.1"}))
    text = "openid: {issuer: 'https://login.example.org/a/', audience: rainbow}\n"
    settings = load(tmp_path, text, {"RAINBOW_OPENID_CLIENT_ID": "ctl", "RAINBOW_OPENID_LEEWAY_SECONDS": "5"})
    assert settings.openid == OpenId(
        issuer="https://login.example.org/a/",
        audience="rainbow",
        client_id="ctl",
        scopes=["openid", "offline_access"],
        user_claim="sub",
        groups_claim="groups",
        leeway_seconds=5,
    )
    assert (settings.needs_token, settings.accepted_hosts) == (True, None)


@pytest.mark.parametrize("issuer", ["http://127.0.0.1:9", "http://localhost:9/a", "http://[::1]:9"])
def test_an_issuer_on_loopback_may_speak_http(tmp_path: Path, issuer: str) -> None:
    settings = load(tmp_path, yaml.safe_dump({"openid": {"issuer": issuer, "audience": "rainbow"}}))
    assert settings.openid.issuer == issuer


def test_a_key_replaces_its_default_and_sections_are_joined(tmp_path: Path) -> None:
    settings = load(tmp_path, "domains: [live]\ntask_resources: {limits: {cpu: 8}}\n")
    assert settings.domain_ids() == ["live"]
    assert settings.document["task_resources"]["limits"] == {"cpu": "8", "memory": "1Gi", "gpu": "1"}


def test_null_unsets_a_single_value_of_the_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path, "task_resources: {limits: {cpu: null}, defaults: {cpu: 64}}\n")
    resources = settings.platform.at(settings.kinds["TASK_RESOURCE"], "").payload
    assert resources == {"defaults": {"cpu": "64", "memory": "200Mi"}, "limits": {"memory": "1Gi", "gpu": "1"}}
    key = "task_resources.limits.cpu"
    assert (settings.shown_values[key], settings.sources[key]) == (None, "file")
    assert load(tmp_path, yaml.safe_dump(settings.document)).document == settings.document


def keys_of(section: Section, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every key, sections included."""
    for name, field in section.fields.items():
        yield (*path, name)
        if isinstance(field, Section):
            yield from keys_of(field, (*path, name))


def field_at(path: tuple[str, ...]) -> Any:
    field: Any = CONFIGURATION
    for key in path:
        field = field.fields[key]
    return field


def is_single(field: Field) -> bool:
    return not isinstance(field, Branch | Record | ListOf | FreeForm | TemplateData)


@pytest.mark.parametrize("path", [path for path in keys_of(CONFIGURATION) if is_single(field_at(path))], ids=".".join)
def test_null_leaves_of_a_single_value_only_what_the_admin_cannot_be_without(
    tmp_path: Path, path: tuple[str, ...]
) -> None:
    document: Any = None
    for key in reversed(path):
        document = {key: document}
    value: Any = load(tmp_path, yaml.safe_dump(document)).document
    for key in path[:-1]:
        value = value[key]
    assert value.get(path[-1]) == field_at(path).default


@pytest.mark.parametrize("path", list(keys_of(CONFIGURATION)), ids=".".join)
@pytest.mark.parametrize("empty", [{}, []], ids=["map", "list"])
def test_an_empty_map_or_list_replaces_the_default(tmp_path: Path, path: tuple[str, ...], empty: Any) -> None:
    document = empty
    for key in reversed(path):
        document = {key: document}
    problems: tuple[Problem, ...] = ()
    try:
        value = load(tmp_path, yaml.safe_dump(document)).document
    except Invalid as refusal:
        problems = refusal.problems
    if problems:  # the key takes no empty map or no empty list
        assert problems[0].field.startswith(".".join(path))
        return
    field = field_at(path)
    for key in path:
        value = value.get(key, {})
    assert value == (single_values(field) if isinstance(field, Section) else type(value)())


def empty_places(field: Field) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Values of a field that leave a map, a list or one of their entries empty, each with the path of what is empty."""
    if isinstance(field, Section | Record):
        for name, inner in field.fields.items():
            if not is_single(inner):
                yield {name: None}, (name,)
            yield from (({name: value}, (name, *path)) for value, path in empty_places(inner))
    elif isinstance(field, ListOf):
        yield [None], ("0",)
        yield from (([value], ("0", *path)) for value, path in empty_places(field.item))
    elif isinstance(field, KeyedList):
        yield [None], ("0",)
        yield [{field.key: "a", field.marker: None}], ("0", field.marker)
        yield {"a": None}, ("a",)
    elif isinstance(field, FreeForm):
        yield {"a": None}, ("a",)
        yield {"a": [{"b": None}]}, ("a", "0", "b")
    elif isinstance(field, MapOf | TemplateData | ByDomain):
        yield {"a": None}, ("a",)
        if isinstance(field, ListedMap | TemplateData):
            yield [{"a": None}], ("a",)
        if isinstance(field, MapOf):
            yield from (({"a": value}, ("a", *path)) for value, path in empty_places(field.value))


@pytest.mark.parametrize(
    ("document", "path"), [pytest.param(*place, id=json.dumps(place[0])) for place in empty_places(CONFIGURATION)]
)
def test_what_is_left_empty_is_refused_by_name(tmp_path: Path, document: Any, path: tuple[str, ...]) -> None:
    with pytest.raises(Invalid) as caught:
        load(tmp_path, yaml.safe_dump(document))
    [reason] = [problem.reason for problem in caught.value.problems if problem.field == ".".join(path)]
    assert reason.startswith("is left empty: ")


def test_an_empty_merge_rule_of_a_kind_is_refused(tmp_path: Path) -> None:
    assert fields(tmp_path, "kinds: {TASK_RESOURCE: {merge: }}") == ["kinds.TASK_RESOURCE.merge"]


def test_nothing_of_the_sample_is_left_where_its_keys_are_given_as_empty(tmp_path: Path) -> None:
    text = "clusters: {labelClusterMap: {}, clusterConfigs: []}\nkinds: {}\ntask_resources: {limits: {}}\n"
    settings = load(tmp_path, text)
    assert (fleet(settings).clusters, fleet(settings).labels) == ({}, {})
    assert "WORKFLOW_PRIORITY" not in [kind.name for kind in settings.kinds]
    resources = settings.platform.at(settings.kinds["TASK_RESOURCE"], "").payload
    assert resources == {"defaults": {"cpu": "2", "memory": "200Mi"}}
    assert load(tmp_path, yaml.safe_dump(settings.document)).document == settings.document


@pytest.mark.parametrize(
    ("text", "clusters", "labels"),
    [
        ("clusters: {clusterConfigs: [{name: mine}]}", ["mine"], []),
        ("clusters: {clusterConfigs: []}", [], []),
        ("clusters: {clusterConfigs: [{name: mine}], labelClusterMap: {a: [{id: mine}]}}", ["mine"], ["a"]),
        ("clusters: {registration: declared}", ["local"], ["mycluster"]),
    ],
)
def test_a_file_with_clusters_of_its_own_does_not_keep_the_label_of_the_sample(
    tmp_path: Path, text: str, clusters: list[str], labels: list[str]
) -> None:
    settings = load(tmp_path, text)
    assert (list(fleet(settings).clusters), list(fleet(settings).labels)) == (clusters, labels)
    assert load(tmp_path, yaml.safe_dump(settings.document)).document == settings.document


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("sever: {port: 1}", "sever"),
        ("server: {prot: 1}", "server.prot"),
        ("server: {port: high}", "server.port"),
        ("server: {port: 99999}", "server.port"),
        ("server: {tls: {certFile: x}}", "server.tls"),
        ("server:", "server"),
        ("openid: {audience: x}", "openid.audience"),
        ("openid: {clientId: x}", "openid.clientId"),
        ("openid: {issuer: 'https://login.example.org'}", "openid.audience"),
        ("openid: {issuer: login.example.org, audience: x}", "openid.issuer"),
        ("openid: {issuer: 'http://login.example.org', audience: x}", "openid.issuer"),
        ("openid: {issuer: 'https://login.example.org?a=b', audience: x}", "openid.issuer"),
        ("openid: {issuer: 'https://login.example.org#a', audience: x}", "openid.issuer"),
        ("openid: {issuer: 'https://ana@login.example.org', audience: x}", "openid.issuer"),
        ("openid: {issuer: 'https://login.example.org:x', audience: x}", "openid.issuer"),
        ("openid: {issuer: 'https://', audience: x}", "openid.issuer"),
        ("openid: {issuer: 'file:///etc/passwd', audience: x}", "openid.issuer"),
        ("openid: {issuer: 'https://login.example.org', audience: ''}", "openid.audience"),
        ("openid: {scopes: []}", "openid.scopes"),
        ("openid: {scopes: [a b]}", "openid.scopes.0"),
        ("openid: {leewaySeconds: 301}", "openid.leewaySeconds"),
        ("openid: {userclaim: sub}", "openid.userclaim"),
        ("domains: []", "domains"),
        ("domains: [Live]", "domains.0.id"),
        ("task_resources: {limits: {cpu: 1x}}", "task_resources.limits.cpu"),
        ("attributes: {unknownNames: ignore}", "attributes.unknownNames"),
        ("clusters: {poolNameClusterMap: {a: [{id: x, weight: -1}]}}", "clusters.poolNameClusterMap.a.0.weight"),
        ("clusters: {poolNameClusterMap: {a: [{id: x, weight: 0}]}}", "clusters.poolNameClusterMap.a"),
        ("clusters: {labelClusterMap: {a: [{id: x}, {id: x}]}}", "clusters.labelClusterMap.a"),
        ("clusters: {poolNameClusterMap: {a: [{id: x, weight: .inf}]}}", "clusters.poolNameClusterMap.a.0.weight"),
        ("clusters: {labelClusterMap: {a: [{id: x, weight: .nan}]}}", "clusters.labelClusterMap.a.0.weight"),
        ("clusters: {poolNameClusterMap: {a: [{id: x}]}, poolStrategies: {b: spill}}", "clusters.poolStrategies.b"),
        ("clusters: {poolNameClusterMap: {a: [{id: x}]}, poolStrategies: {a: best}}", "clusters.poolStrategies.a"),
        ("placement: {graphBackend: memroy}", "placement.graphBackend"),
        ("clusters: {clusterConfigs: [{name: x}, {name: x}]}", "clusters.clusterConfigs"),
        ("clusters: {clusterConfigs: [{name: x, capacity: {cpu: 1x}}]}", "clusters.clusterConfigs.0.capacity.cpu"),
        ("placement: {requestMayOverride: {prod: false}}", "placement.requestMayOverride.prod"),
        ("placement: {requestMayOverride: never}", "placement.requestMayOverride"),
        ("placement: {clusterUse: shut}", "placement.clusterUse"),
        ("loops: {intervalMilliseconds: 1}", "loops.intervalMilliseconds"),
        ("loops: {leaseSeconds: 0}", "loops.leaseSeconds"),
        ("qualityOfService: {defaultTiers: {prod: HIGH}}", "qualityOfService.defaultTiers.prod"),
        ("clusterPools: {clusterPoolAssignments: {prod: {pool: a}}}", "clusterPools.clusterPoolAssignments.prod"),
        ("task_resources: {defaults: {cpu: 4}}", "task_resources.defaults.cpu"),
        ("task_resources: {defaults: {cpu: 0}, limits: {cpu: 0}}", "task_resources.limits.cpu"),
        (
            "cluster_resources: {templateData: {a: {valueFrom: {env: X, filePath: /x}}}}",
            "cluster_resources.templateData.a",
        ),
        ("cluster_resources: {templateData: {namespace: x}}", "cluster_resources.templateData.namespace"),
        (
            "cluster_resources: {customData: {production: [{domain: {value: x}}]}}",
            "cluster_resources.customData.production.domain",
        ),
        ("cluster_resources: {standaloneDeployment: true}", "cluster_resources.standaloneDeployment"),
        ("namespace_mapping: {template: '{{ domain }}'}", "namespace_mapping.template"),
        ("kinds: {MINE: {number: 10, fields: {a: int}, color: red}}", "kinds.MINE.color"),
        ("projects: [Upper]", "projects.0.id"),
    ],
)
def test_a_wrong_key_is_named(tmp_path: Path, text: str, field: str) -> None:
    assert field in fields(tmp_path, text)


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ("poolSettings: {b: {strategy: ask}}", "poolSettings.b"),
        ("poolSettings: {a: {strategy: ask, askDeadlin: 5s}}", "poolSettings.a.askDeadlin"),
        ("poolSettings: {a: {strategy: spill, askDeadline: 5s}}", "poolSettings.a.askDeadline"),
        ("poolSettings: {a: {strategy: ask, askDeadline: 601s}}", "poolSettings.a.askDeadline"),
        ("poolSettings: {a: {strategy: ask, rebalance: often}}", "poolSettings.a.rebalance"),
        ("poolSettings: {a: {strategy: ask, costWeight: 2}}", "poolSettings.a.costWeight"),
        ("poolStrategies: {a: ask}, poolSettings: {a: {strategy: ask}}", "poolSettings.a.strategy"),
        ("poolSettings: {a: {strategy: constraint}}", "poolSettings.a.rules"),
        ("poolSettings: {a: {strategy: constraint, rules: [{sort: prise}]}}", "poolSettings.a.rules.0.sort"),
    ],
)
def test_a_wrong_field_of_a_pool_is_named(tmp_path: Path, keys: str, field: str) -> None:
    text = f"clusters: {{poolNameClusterMap: {{a: [{{id: x}}]}}, {keys}}}"
    assert fields(tmp_path, text) == [f"clusters.{field}"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("server: {port: 1}\nserver: {port: 2}\n", ":2:1"),
        ("a: &x 1\nb: *x\n", ""),
        ("server:\n\tport: 1\n", ":2:1"),
        ("- a\n", ""),
        ("a: !!python/object:os.system {}\n", ""),
        ("a: 1\n---\nb: 1\n", ":2:1"),
    ],
)
def test_an_ambiguous_file_is_refused_with_line_and_column(tmp_path: Path, text: str, where: str) -> None:
    [field] = fields(tmp_path, text)
    assert where in field or field == "a"


def test_words_and_numbers_are_taken_as_written(tmp_path: Path) -> None:
    text = "clusters: {defaultExecutionLabel: no}\ntask_resources: {limits: {cpu: 010}}\n"
    settings = load(tmp_path, text)
    assert settings.document["clusters"]["defaultExecutionLabel"] == "no"
    assert settings.document["task_resources"]["limits"]["cpu"] == "010"


@pytest.mark.parametrize(
    ("user_and_host", "reason"),
    [
        ("rainbow:hun@ter2@db.example", "%40"),
        ("rainbow:hun@ter2:5@db.example", "%40"),
        ("rainbow:hun@ter2/5@db.example", "%40"),
        ("rainbow:hun@ter2?a=5@db.example", "%40"),
        ("rain/bow:hunter2@db.example", "%2F"),
        ("rainbow:hunter2@db.example:notaport", "the port is not a number"),
        ("rainbow:hunter2", "the port is not a number"),
    ],
)
def test_a_database_url_that_splits_its_password_is_refused_without_repeating_it(
    user_and_host: str, reason: str
) -> None:
    with pytest.raises(Invalid) as caught:
        load_settings(environment={"RAINBOW_DATABASE_URL": f"postgresql+psycopg://{user_and_host}/rainbow"})
    [problem] = caught.value.problems
    assert problem.field == "database.url"
    assert reason in problem.reason
    assert not any(part in str(problem) for part in ("hun", "ter2", "notaport"))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://rainbow:hun%40ter2@db.example:5432/rainbow",
        "postgresql+psycopg://rainbow@db.example/rainbow",
        "postgresql+psycopg://[::1]:5432/rainbow",
        "postgresql+psycopg:///rainbow?host=/run/postgresql",
        "sqlite:////srv/a@b/c@d.db",
    ],
)
def test_other_database_urls_are_taken_and_shown_without_their_password(url: str) -> None:
    settings = load_settings(environment={"RAINBOW_DATABASE_URL": url})
    assert settings.database_url == url
    assert unquote(settings.shown_database_url) == url.replace("hun%40ter2", "***")


def test_a_url_is_hidden_up_to_the_last_at_sign() -> None:
    settings = replace(load_settings(), database_url="postgresql+psycopg://rainbow:hun@ter2@db.example/rainbow")
    assert settings.shown_database_url == "postgresql+psycopg://rainbow:***@db.example/rainbow"


def test_an_unknown_variable_of_ours_is_an_error_and_others_are_not() -> None:
    load_settings(environment={"RAINBOW_TOKEN": "x", "RAINBOW_ENDPOINT": "y", "OTHER": "z"})
    with pytest.raises(Invalid) as caught:
        load_settings(environment={"RAINBOW_SERVER_PROT": "1"})
    assert caught.value.problems[0].closest[0] == "RAINBOW_SERVER_PORT"
    assert "RAINBOW_DATABASE_URL" in environment_variables()


def test_the_sample_of_the_pools_proposal_loads(tmp_path: Path) -> None:
    settings = load(tmp_path, POOLS_SAMPLE)
    assert set(fleet(settings).pools) == {"pool_1", "pool_2"}
    assert fleet(settings).label_names() == {"production", *(f"flyte-{number}-k8s" for number in range(1, 5))}


def test_each_kind_gets_its_platform_values_from_its_own_keys(tmp_path: Path) -> None:
    text = """
cluster_resources:
  templateData: {quota: {value: "1"}}
  customData: {production: [{quota: {value: "9"}}]}
queues:
  executionQueues: [{dynamic: q, attributes: [t]}]
  workflowConfigs: [{domain: production, tags: [t]}, {tags: [u]}]
qualityOfService: {defaultTiers: {production: HIGH}}
clusters: {defaultExecutionLabel: l, defaultClusterPool: p}
clusterPools: {clusterPoolAssignments: {production: {pool: q}}}
"""
    settings = load(tmp_path, text)

    def platform_leaves(kind: str, domain: str) -> dict[str, tuple[Any, str]]:
        leaves = settings.platform.at(settings.kinds[kind], domain)
        return {".".join(path): (leaf.value, leaf.key) for path, leaf in leaves.items()}

    assert platform_leaves("CLUSTER_RESOURCE", "production") == {
        "attributes.quota": ("9", "cluster_resources.customData.production.quota")
    }
    assert platform_leaves("EXECUTION_QUEUE", "production") == {"tags": (["t"], "queues.workflowConfigs")}
    assert platform_leaves("EXECUTION_QUEUE", "staging") == {"tags": (["u"], "queues.workflowConfigs")}
    assert platform_leaves("QUALITY_OF_SERVICE_SPECIFICATION", "staging") == {}
    assert platform_leaves("EXECUTION_CLUSTER_LABEL", "") == {"value": ("l", "clusters.defaultExecutionLabel")}
    assert platform_leaves("CLUSTER_ASSIGNMENT", "production") == {
        "cluster_pool_name": ("q", "clusterPools.clusterPoolAssignments.production")
    }
    assert platform_leaves("WORKFLOW_PRIORITY", "production") == {
        "priority": (50, "kinds.WORKFLOW_PRIORITY.fields.priority.default")
    }


def test_maps_may_be_lists_of_maps_as_in_the_charts(tmp_path: Path) -> None:
    text = """
cluster_resources:
  customData:
    - production:
        - projectQuotaCpu: {value: "5"}
        - projectQuotaMemory: {value: 4000Mi}
clusters:
  labelClusterMap:
    - Team1: [{id: c1, weight: 1}]
"""
    settings = load(tmp_path, text)
    assert settings.document["cluster_resources"]["customData"] == {
        "production": {"projectQuotaCpu": "5", "projectQuotaMemory": "4000Mi"}
    }
    assert "Team1" in fleet(settings).label_names()


def test_the_loaded_configuration_can_be_loaded_again(tmp_path: Path) -> None:
    document = load_settings().document
    again = load(tmp_path, yaml.safe_dump(document))
    assert again.document == document


def test_everything_is_kept_for_ever_unless_retention_is_set(tmp_path: Path) -> None:
    assert load_settings().retention == Retention()
    assert load_settings().retention_interval_seconds == 3600
    settings = load(tmp_path, "retention: {executions: 90d, logs: 12h}\n", {"RAINBOW_RETENTION_LOGS": "1d12h"})
    assert settings.retention == Retention(executions="90d", logs="1d12h")
    assert fields(tmp_path, "retention: {executions: 90, logs: 0d, revisions: never, event: 1d}\n") == [
        "retention.event",
        "retention.executions",
        "retention.logs",
        "retention.revisions",
    ]


def test_every_value_in_force_says_where_it_comes_from_and_no_password(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "server: {port: 1, workers: 3}\ndatabase: {url: 'postgresql://u:secret@host/d?sslpassword=secret'}\n"
        "task_resources: {limits: {}}\ndomains: [production]\n",
        {"RAINBOW_SERVER_WORKERS": "4"},
        server={"port": 2},
    )
    values, sources = settings.shown_values, settings.sources
    assert (values["server.port"], sources["server.port"]) == (2, "command line")
    assert (values["server.workers"], sources["server.workers"]) == (4, "environment")
    assert (sources["domains"], sources["database.url"]) == ("file", "file")
    assert "server.host" not in sources
    assert "secret" not in str(values)
    assert load_settings().shown_values["database.url"].startswith("sqlite:///")
    assert load_settings().sources == {}


def test_roles_of_ones_own_stand_beside_the_built_in_ones(tmp_path: Path) -> None:
    text = "roles: {auditor: {description: Looks., permissions: [grants.read, audit.read]}}\n"
    roles = load(tmp_path, text).roles
    assert list(roles) == ["viewer", "submitter", "editor", "operator", "admin", "auditor"]
    assert roles["auditor"].permissions == {"grants.read", "audit.read"}
    assert "auditor" not in load_settings().roles


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("roles: {admin: {permissions: [logs.read]}}", "roles.admin"),
        ("roles: {auditor: {permissions: [log.read]}}", "roles.auditor.permissions"),
        ("roles: {auditor: {description: x}}", "roles.auditor.permissions"),
        ("roles: {Auditor: {permissions: [logs.read]}}", "roles.Auditor"),
    ],
)
def test_bad_roles_are_refused_by_name(tmp_path: Path, text: str, field: str) -> None:
    assert fields(tmp_path, text) == [field]


def test_pools_take_every_field_that_stored_ones_have(tmp_path: Path) -> None:
    members = "poolNameClusterMap: {a: [{id: x}], b: [{id: x}]}"
    asks = "{strategy: ask, askDeadline: 5s, chooseBy: mix, secondsWeight: 2, costWeight: 3, rebalance: better-by 5m}"
    rules = "{strategy: constraint, description: by price, rules: [{sort: cost}]}"
    text = f"clusters: {{{members}, poolSettings: {{a: {asks}, b: {rules}}}}}"
    pools = {pool.name: pool.payload for pool in load(tmp_path, text).fleet if pool.kind is FleetKind.POOL}
    assert pools["a"] == {
        "members": [{"id": "x", "weight": 1}],
        "strategy": "ask",
        "ask_deadline": "5s",
        "choose_by": "mix",
        "seconds_weight": 2,
        "cost_weight": 3,
        "rebalance": "better-by 5m",
    }
    assert (pools["b"]["rules"], pools["b"]["description"]) == ([{"sort": "cost"}], "by price")


def test_the_resource_manager_is_the_database_unless_configured(tmp_path: Path) -> None:
    manager = load_settings().resource_manager
    assert (manager.type, manager.host_paths, manager.longest_lease_seconds) == ("database", (), 60)
    assert manager.resource_max_quota == 1000
    text = "resourcemanager: {type: redis, redis: {hostPaths: [a:1, b:2], hostKey: secret, maxRetries: 3}}"
    settings = load(tmp_path, text)
    manager = settings.resource_manager
    assert (manager.type, manager.host_paths, manager.host_key) == ("redis", ("a:1", "b:2"), "secret")
    assert settings.shown_values["resourcemanager.redis.hostKey"] == "hidden"
    settings = load(tmp_path, "resourcemanager: {type: redis}", {"RAINBOW_RESOURCEMANAGER_REDIS_HOST_PATH": "a:1"})
    assert settings.resource_manager.host_paths == ("a:1",)
    flyte = load(tmp_path, "resourcemanager: {type: redis, resourceMaxQuota: 100, redis: {hostPaths: [foo]}}")
    manager = flyte.resource_manager
    assert (manager.resource_max_quota, manager.host_paths) == (100, ("foo:6379",))


def test_what_flyte_leaves_empty_of_redis_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    redis = "{hostPaths: [], hostPath: 'a:1', primaryName: '', hostKey: ''}"
    manager = load(tmp_path, f"resourcemanager: {{type: redis, redis: {redis}}}").resource_manager
    assert (manager.host_paths, manager.host_key) == (("a:1",), "")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("resourcemanager: {type: etcd}", "resourcemanager.type"),
        ("resourcemanager: {type: redis}", "resourcemanager.redis.hostPaths"),
        ("resourcemanager: {redis: {hostPaths: ['redis:port']}}", "resourcemanager.redis.hostPaths"),
        ("resourcemanager: {redis: {hostPaths: [':6379']}}", "resourcemanager.redis.hostPaths"),
        ("resourcemanager: {redis: {hostPath: 'redis:65536'}}", "resourcemanager.redis.hostPaths"),
        ("resourcemanager: {redis: {hostKey: [a]}}", "resourcemanager.redis.hostKey"),
        ("resourcemanager: {redis: {primaryName: mymaster}}", "resourcemanager.redis.primaryName"),
        ("resourcemanager: {type: redis, redis: {hostPaths: [], hostPath: ''}}", "resourcemanager.redis.hostPaths"),
        ("resourcemanager: {redis: {maxRetries: 1.5}}", "resourcemanager.redis.maxRetries"),
        ("resourcemanager: {resourceMaxQuota: 0}", "resourcemanager.resourceMaxQuota"),
        ("resourcemanager: {resourceMaxQuota: many}", "resourcemanager.resourceMaxQuota"),
        ("resourcemanager: {redis: {hostPath: 'a:1', hostPaths: ['b:1']}}", "resourcemanager.redis.hostPath"),
        ("resourcemanager: {redis: {maxRetries: -1}}", "resourcemanager.redis.maxRetries"),
    ],
)
def test_a_bad_resource_manager_is_refused_by_name(tmp_path: Path, text: str, field: str) -> None:
    assert fields(tmp_path, text) == [field]
