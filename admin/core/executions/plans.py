"""Executions: what a request asks for, and what it comes to once every setting is applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any

from admin.core import names
from admin.core.executions.queues import Queue, find_queues
from admin.core.executions.retries import RETRY
from admin.core.fields import Choice, FreeForm, Integer, Record, Section, Text
from admin.core.fleet.fleet import Fleet
from admin.core.jobs.job import JOB, demand, task_type, with_resources, without_nulls
from admin.core.jobs.templates import fill_job
from admin.core.placement import routes
from admin.core.placement.choices import Options
from admin.core.placement.decisions import Decision, Judgement, can_ever, choose, group_of, judge
from admin.core.placement.filters import Wanted
from admin.core.placement.routes import EVERYWHERE, REQUEST, Route, RouteKind, Rung, Wish, find_route
from admin.core.problems import Invalid, Problem, Refused, closest, did_you_mean, shorten
from admin.core.quantities import parse_duration
from admin.core.resources import Amounts
from admin.core.settings import builtin_kinds as kinds
from admin.core.settings import trails
from admin.core.settings.kinds import Kind, Kinds
from admin.core.settings.platform import PlatformValues
from admin.core.settings.resolution import Layer, Resolved, RowsByKind, overlay, resolve
from admin.core.settings.scopes import Scope

#: An execution is a native job in the end, so its name is one that Kubernetes takes.
EXECUTION_NAME = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
EXECUTION_NAME_RULE = (
    "lower-case letters, digits and '-', at most 63, starting with a letter and ending with a letter or digit"
)

#: The most urgent first.
TIERS = ("HIGH", "MEDIUM", "LOW", "UNDEFINED")
_USUAL_PRIORITY = 50

_NAME = Text(pattern=names.ENTITY_NAME, rule=names.ENTITY_NAME_RULE, max_length=255)
_PLACE = Text(pattern=names.DNS_LABEL, rule=names.DNS_LABEL_RULE)

IDENTIFIER = {"project": _PLACE, "domain": _PLACE, "name": _NAME, "version": _NAME}

#: What a launch plan's definition and a request may both say, over the attributes.
SETTINGS: dict[str, Any] = {
    **kinds.WORKFLOW_EXECUTION_CONFIG.payload.fields,
    "cluster_assignment": kinds.CLUSTER_ASSIGNMENT.payload,
    "execution_cluster_label": kinds.EXECUTION_CLUSTER_LABEL.payload,
    "quality_of_service": kinds.QUALITY_OF_SERVICE.payload,
}

EXECUTION_SPEC = Section(
    exclusive=("launch_plan", "job", "jobspec"),
    fields={
        **SETTINGS,
        "launch_plan": Record(
            description="What to launch; a workflow or task is resolved without a launch plan.",
            required=("name",),
            drop_empty=True,
            fields={
                "resource_type": Choice(
                    words=("LAUNCH_PLAN", "WORKFLOW", "TASK"), numbers={"TASK": 1, "WORKFLOW": 2, "LAUNCH_PLAN": 3}
                ),
                **IDENTIFIER,
            },
        ),
        "retry": RETRY,
        "job": JOB,
        "jobspec": FreeForm(description="A jobspec: the simple form, the next generation's, or Flux's."),
        "cluster": _NAME,
        "auth_role": Record(
            drop_empty=True, fields={"assumable_iam_role": Text(), "kubernetes_service_account": Text()}
        ),
        "metadata": Record(
            fields={
                "mode": Choice(
                    words=("MANUAL", "SCHEDULED", "SYSTEM", "RELAUNCH", "CHILD_WORKFLOW", "RECOVERED", "TRIGGER"),
                    numbers={
                        "MANUAL": 0,
                        "SCHEDULED": 1,
                        "SYSTEM": 2,
                        "RELAUNCH": 3,
                        "CHILD_WORKFLOW": 4,
                        "RECOVERED": 5,
                        "TRIGGER": 6,
                    },
                ),
                "principal": Text(min_length=0, max_length=255),
                "nesting": Integer(minimum=0, maximum=1000),
            }
        ),
    },
)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What configuration says of executions."""

    kinds: Kinds
    platform: PlatformValues
    queues: tuple[Queue, ...] = ()
    queueing_budgets: Mapping[str, str] = field(default_factory=dict)  #: by tier
    fenced: frozenset[str] = frozenset()  #: domains whose requests may not say where to run


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One thing to run, at one scope, with all that was said of it; nothing is resolved yet."""

    scope: Scope
    job: Mapping[str, Any]
    inputs: Mapping[str, Any] | None = None  #: to fill in; None for an ad hoc job, in which nothing is
    definition: Mapping[str, Any] = field(default_factory=dict)  #: the launch plan's settings
    request: Mapping[str, Any] = field(default_factory=dict)  #: the request's own settings
    project_labels: Mapping[str, str] = field(default_factory=dict)
    job_path: str = "spec.job"  #: where its writer finds the job


@dataclass(frozen=True, kw_only=True)
class EffectiveSettings:
    """What settings say of a launch, whatever it is called and whatever it runs."""

    settings: Mapping[str, Resolved]  #: every kind, with its trail
    route: Route
    fence: Route | None  #: where settings alone would lead, in a domain whose requests may not differ from them

    @cached_property
    def trail(self) -> trails.Trail:
        """What was said, as it is stored."""
        said = [trails.resolved(one) for one in self.settings.values()]
        return trails.Trail.of({"settings": said, "rungs": routes.as_json(self.route)})

    @property
    def config(self) -> Resolved:
        return self.settings[kinds.WORKFLOW_EXECUTION_CONFIG.name]

    @cached_property
    def carried(self) -> dict[str, tuple[dict[str, str], dict[str, str], set[str]]]:
        """What a job gets of each sort: what goes below its own, what goes above, and which of its own go away."""
        found: dict[str, tuple[dict[str, str], dict[str, str], set[str]]] = {}
        leaves = self.config.kind.leaves(self.config.value)
        for name, part in (("labels", "labels"), ("annotations", "annotations"), ("environment", "envs")):
            below: dict[str, str] = {}
            above: dict[str, str] = {}
            for path, origin in self.config.origins.items():
                if path[0] == part:
                    (above if origin.layer else below)[path[-1]] = _text(leaves[path])
            unset = {path[-1] for path, origin in self.config.unset.items() if path[0] == part and origin.layer}
            found[name] = below, above, unset
        return found

    @cached_property
    def travelling(self) -> dict[str, Any]:
        """Effective values that travel to the agent as they are."""
        return {
            name: one.value
            for name, one in self.settings.items()
            if one.value and (one.kind.declared or name == kinds.CLUSTER_RESOURCE.name)
        }


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What a launch comes to under the settings in force: everything but where."""

    job: dict[str, Any]
    config: dict[str, Any]
    queues: Options | None  #: that one is drawn from by name
    quality_of_service: dict[str, Any]
    plugins: dict[str, Any] | None
    retry: dict[str, Any] | None
    attributes: dict[str, Any]  #: effective values that travel to the agent as they are
    effective: EffectiveSettings
    wanted: Wanted

    @property
    def route(self) -> Route:
        return self.effective.route

    @property
    def queue(self) -> str | None:
        return self.queue_of(self.wanted.key)

    def queue_of(self, key: str) -> str | None:
        """The queue of what has another name."""
        return self.queues.draw(key) if self.queues is not None else None

    @property
    def tier(self) -> int:
        """Its place in the lease order; the lower goes first."""
        return TIERS.index(self.quality_of_service.get("tier", "UNDEFINED"))

    @property
    def priority(self) -> int:
        """Its place within its tier; the higher goes first."""
        return int(self.attributes.get("WORKFLOW_PRIORITY", {}).get("priority", _USUAL_PRIORITY))


def queue_deadline(quality: Mapping[str, Any], now: datetime) -> datetime | None:
    """Until when something may wait that waits from now on; None for as long as it takes."""
    budget = quality.get("queueing_budget")
    if budget is None:
        return None
    try:
        return now + _duration(budget)
    except OverflowError:
        return None  # longer than time itself


@lru_cache(maxsize=256)
def _duration(text: str) -> timedelta:
    return timedelta(seconds=float(parse_duration(text)))


def settle(launch: Launch, rows: RowsByKind, rules: Rules) -> EffectiveSettings:
    """Everything that settings say at a launch's scope, and what its definition and its request say over them."""
    return EffectiveSettings(
        settings={kind.name: _resolved(kind, launch, rows, rules.platform) for kind in rules.kinds},
        route=_route(launch, _wish(launch.request), rows, rules),
        fence=_route(launch, Wish(), rows, rules) if launch.scope.domain in rules.fenced else None,
    )


def compose(launch: Launch, name: str, effective: EffectiveSettings, rules: Rules) -> RunPlan:
    """Apply every setting to a launch; Invalid where a setting forbids it."""
    settings = effective.settings
    filled = dict(launch.job) if launch.inputs is None else fill_job(launch.job, launch.inputs)
    job = _applied(filled, effective, launch)
    job = with_resources(job, settings[kinds.TASK_RESOURCE.name], launch.job_path)
    plugins = _plugins(job, settings[kinds.PLUGIN_OVERRIDE.name])
    must_offer = plugins is not None and plugins["missing_plugin_behavior"] == "FAIL"
    return RunPlan(
        job=job,
        config=effective.config.value,
        queues=find_queues(rules.queues, settings[kinds.EXECUTION_QUEUE.name]),
        quality_of_service=_quality(settings[kinds.QUALITY_OF_SERVICE.name], rules.queueing_budgets),
        plugins=plugins,
        retry=launch.request.get("retry") or launch.definition.get("retry"),
        attributes=effective.travelling,
        effective=effective,
        wanted=Wanted(
            key=draw_key(launch.scope.project, launch.scope.domain, name),
            demand=demand(job),
            plugins=tuple(plugins["plugin_id"]) if plugins and must_offer else (),
        ),
    )


def draw_key(project: str, domain: str, name: str) -> str:
    """What an execution draws its queue and its cluster by."""
    return f"{project}/{domain}/{name}"


def _resolved(kind: Kind, launch: Launch, rows: RowsByKind, platform: PlatformValues) -> Resolved:
    found = resolve(kind, launch.scope, rows.get(kind.name, {}), platform.at(kind, launch.scope.domain))
    layers = [
        Layer(name=name, payload=payload)
        for name, said in (("launch-plan-definition", launch.definition), (REQUEST, launch.request))
        if (payload := _said(kind, said))
    ]
    return overlay(found, layers) if layers else found


def _said(kind: Kind, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a request or a definition says of one kind."""
    if kind.name == kinds.WORKFLOW_EXECUTION_CONFIG.name:
        return {name: settings[name] for name in kind.payload.fields if name in settings}
    return dict(settings.get(kind.payload_key, {})) if kind.payload_key in SETTINGS else {}


def _applied(job: dict[str, Any], effective: EffectiveSettings, launch: Launch) -> dict[str, Any]:
    """A job with the execution config on it: the request and the launch plan over the job's own, the rest below."""
    applied = {**job, "task_type": task_type(job)}
    for name, (below, above, unset) in effective.carried.items():
        own = job.get(name, {})
        if unset:
            own = {key: value for key, value in own.items() if key not in unset}
        project = launch.project_labels if name == "labels" else {}
        merged = {**project, **below, **own, **above}
        applied.pop(name, None)
        if merged:
            applied[name] = merged
    identity = effective.config.value.get("security_context", {}).get("run_as")
    return applied | {"identity": identity} if identity else applied


def _text(leaf: Any) -> str:
    return str(leaf["value"] if isinstance(leaf, dict) else leaf)


def _plugins(job: Mapping[str, Any], overrides: Resolved) -> dict[str, Any] | None:
    for entry in overrides.value.get("overrides", []):
        if entry["task_type"] == job["task_type"]:
            behavior = entry.get("missing_plugin_behavior", "FAIL")
            return {"plugin_id": entry["plugin_id"], "missing_plugin_behavior": behavior}
    return None


def _quality(found: Resolved, budgets: Mapping[str, str]) -> dict[str, Any]:
    tier = found.value.get("tier")
    budget = found.value.get("spec", {}).get("queueing_budget") or budgets.get(tier or "")
    said = {"tier": tier, "queueing_budget": budget}
    return {name: value for name, value in said.items() if value is not None}


def _route(launch: Launch, request: Wish, rows: RowsByKind, rules: Rules) -> Route:
    definition = _wish(launch.definition)
    return find_route(request=request, definition=definition, scope=launch.scope, rows=rows, platform=rules.platform)


def _wish(said: Mapping[str, Any]) -> Wish:
    return Wish(
        cluster=said.get("cluster"),
        pool=said.get("cluster_assignment", {}).get("cluster_pool_name"),
        label=said.get("execution_cluster_label", {}).get("value"),
    )


def _check_fence(asked: Route, effective: Route, fleet: Fleet) -> None:
    """A request may repeat what the settings say, or name one of the clusters that they lead to, and nothing else."""
    if effective.kind is RouteKind.ANY or (asked.kind, asked.name) == (effective.kind, effective.name):
        return
    group = group_of(effective, fleet)
    if asked.kind is RouteKind.CLUSTER and group and any(one.cluster == asked.name for one in group.members):
        return
    raise Refused(
        "request_fenced",
        Problem(
            field=field_of(asked.winner),
            reason=f"asks for {asked}, but {effective.winner} says {effective}, and requests in this domain may not "
            "override settings (placement.requestMayOverride). Leave it out, or change the setting.",
        ),
    )


def field_of(rung: Rung) -> str:
    """The field of a request in which a rung was said."""
    fields = {
        RouteKind.CLUSTER: "spec.cluster",
        RouteKind.POOL: "spec.cluster_assignment.cluster_pool_name",
        RouteKind.LABEL: "spec.execution_cluster_label.value",
    }
    return fields.get(rung.kind, "") if rung.rung == REQUEST else rung.kind.value


def check_route(route: Route, fleet: Fleet) -> None:
    """Refuse a route whose name the fleet does not know, naming who said it; and a named cluster that is disabled."""
    rung = route.winner
    if rung.rung == EVERYWHERE:
        return
    if group_of(route, fleet) is None:
        known = {
            RouteKind.POOL: fleet.pools.keys(),
            RouteKind.LABEL: fleet.label_names(),
            RouteKind.CLUSTER: fleet.clusters.keys(),
        }[route.kind]
        near = closest(route.name, known)
        what = route.kind.value
        raise Refused(
            f"unknown_{what}",
            Problem(
                field=field_of(rung),
                reason=f"No {what} is called '{shorten(route.name)}', set by {rung}.{did_you_mean(near)} "
                f"`rainbowctl get {what}` lists them.",
                closest=near,
            ),
        )
    if route.kind is RouteKind.CLUSTER and not fleet.clusters[route.name].enabled:
        raise Refused(
            "cluster_disabled",
            Problem(
                field=field_of(rung),
                reason=f"cluster '{route.name}' is disabled: name another one, or "
                f"`rainbowctl enable cluster {route.name}` first.",
            ),
        )


def place(run_plan: RunPlan, fleet: Fleet, waiting: Mapping[str, Amounts]) -> Decision:
    """Where a launch goes; refused where its route is unknown or no cluster could ever run it."""
    check_place(run_plan.effective, fleet)
    judgement = judge(run_plan.route, fleet, run_plan.wanted, waiting)
    refuse_hopeless(judgement)
    return choose(judgement, run_plan.wanted.key)


def check_place(effective: EffectiveSettings, fleet: Fleet) -> None:
    """Refuse a wish that settings do not allow, and a place that the fleet does not know."""
    if effective.fence is not None:
        _check_fence(effective.route, effective.fence, fleet)
    check_route(effective.route, fleet)


def refuse_hopeless(judgement: Judgement) -> None:
    """Refuse what no cluster could ever run."""
    if not can_ever(judgement):
        raise Refused("no_cluster_large_enough", Problem(field="spec.job.resources", reason=judgement.message))


def request_warnings(request: Mapping[str, Any]) -> list[dict[str, str]]:
    """What its writer should know of a request."""
    wish = _wish(request)
    given = [kind for kind, name in (("cluster", wish.cluster), ("pool", wish.pool), ("label", wish.label)) if name]
    if len(given) < 2:
        return []
    message = f"The request names a {' and a '.join(given)}; the {given[0]} counts."
    return [{"code": "several_places", "message": message}]


def read_spec(spec: Any, path: tuple[str, ...] = ("spec",)) -> dict[str, Any]:
    """A request's spec in its normal form; Invalid with every problem."""
    problems: list[Problem] = []
    normal: dict[str, Any] = EXECUTION_SPEC.read(spec, path, problems)
    problems += [] if problems else null_places(normal, path)
    given = [name for name in EXECUTION_SPEC.exclusive if normal.get(name)]
    if not problems and not given:
        problems.append(Problem(field=".".join(path), reason="runs nothing: give one of launch_plan, job and jobspec."))
    if problems:
        raise Invalid(*problems)
    for name in ("launch_plan", "job", "jobspec", "cluster", "metadata", "auth_role"):
        if name in normal:
            normal[name] = without_nulls(normal[name])
    return _with_auth_role({name: value for name, value in normal.items() if value is not None or name in SETTINGS})


def null_places(settings: Mapping[str, Any], path: tuple[str, ...]) -> list[Problem]:
    """Places that are null: rows unset what broader rows say, but a request or a definition only adds its own word."""
    return [
        Problem(field=".".join((*path, name, field)), reason="is null, which says nothing here: leave it out.")
        for name, field in (("cluster_assignment", "cluster_pool_name"), ("execution_cluster_label", "value"))
        if name in settings and settings[name].get(field, "") is None
    ]


def _with_auth_role(spec: dict[str, Any]) -> dict[str, Any]:
    """Flyte's older way to say who the work runs as; the newer one counts where both are given."""
    role = spec.pop("auth_role", None)
    if not role:
        return spec
    run_as = {
        ours: role[theirs]
        for ours, theirs in (("iam_role", "assumable_iam_role"), ("k8s_service_account", "kubernetes_service_account"))
        if theirs in role
    }
    context = {"run_as": run_as, **spec.get("security_context", {})}
    return {**spec, "security_context": context}
