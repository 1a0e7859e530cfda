"""Namespaces on a real API server: applied, repaired, pruned, and never touched where they are others'."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from admin.configuration.template_files import TemplateFiles
from admin.core.cluster_resources.rendering import render
from admin.core.cluster_resources.values import Value
from admin.core.settings.scopes import Scope
from agent.cluster_resources.maker import INSTALLATION, NamespaceMaker
from agent.cluster_resources.orders import Namespace, Orders
from agent.cluster_resources.reports import Report
from agent.engines.resource_api import ApiRefusal, ApiUnavailable
from tests.conftest import Scale
from tests.support.kubernetes import KubernetesCluster
from tests.support.waiting import wait_until

pytest.importorskip("lightkube")

DEFAULTS = {"projectQuotaCpu": "4", "projectQuotaMemory": "3000Mi", "taskDefaultCpu": "1", "taskLimitCpu": "2"}
CRA = {**DEFAULTS, "projectQuotaCpu": "1000", "projectQuotaMemory": "5Ti"}


@pytest.fixture
def api(control_plane: KubernetesCluster) -> Iterator[Any]:
    from agent.engines.kubernetes.resource_api import LightkubeApi

    api = LightkubeApi(str(control_plane.kubeconfig))
    yield api
    api.close()


@pytest.fixture
def project() -> str:
    return f"p{secrets.token_hex(4)}"


def namespace(project: str, domain: str = "development", **values: str) -> Namespace:
    """What the built-in templates make of a project and domain."""
    name = f"{project}-{domain}"
    given = {"namespace": name, "project": project, "domain": domain, **(values or DEFAULTS)}
    rendering = render(
        TemplateFiles(None).current(),
        Scope(domain, project),
        name,
        {key: Value(text) for key, text in given.items()},
        {},
    )
    assert rendering.problems == ()
    documents = tuple(dict(entry.document) for entry in rendering.objects)
    return Namespace(name=name, project=project, domain=domain, digest=rendering.digest, objects=documents)


def orders(*namespaces: Namespace, **more: Any) -> Orders:
    installation = more.pop("installation", f"i{namespaces[0].project}")
    named = {entry.name: entry for entry in namespaces}
    return Orders(installation=installation, namespaces=named, may_prune=True, **more)


def states(report: Report) -> dict[str, str]:
    return {entry["object"]: entry["state"] for entry in report.objects}


def quota(api: Any, name: str) -> Any:
    return api.get(f"/api/v1/namespaces/{name}/resourcequotas/project-quota")["spec"]["hard"]


def change(control_plane: KubernetesCluster, path: str, document: dict[str, Any]) -> None:
    """Change an object as somebody else."""
    from agent.engines.kubernetes.resource_api import LightkubeApi

    other = LightkubeApi(str(control_plane.kubeconfig))
    query = {"fieldManager": "somebody"}
    other._call("PATCH", path, document, query=query, headers={"Content-Type": "application/merge-patch+json"})
    other.close()


def test_an_attribute_becomes_a_quota_and_goes_back(api: Any, project: str) -> None:
    maker = NamespaceMaker(api)
    staging = namespace(project, "staging")
    made, other = maker.make(orders(namespace(project, **CRA), staging))
    assert states(made) == {
        "Namespace/" + made.namespace: "applied",
        "ResourceQuota/project-quota": "applied",
        "LimitRange/task-resources": "applied",
    }
    assert made.exists
    assert quota(api, made.namespace) == {"limits.cpu": "1k", "limits.memory": "5Ti"}
    assert quota(api, other.namespace) == {"limits.cpu": "4", "limits.memory": "3000Mi"}
    again, _ = maker.make(orders(namespace(project), staging))
    assert set(states(again).values()) == {"applied"}
    assert quota(api, made.namespace) == {"limits.cpu": "4", "limits.memory": "3000Mi"}


def test_what_others_change_is_repaired_and_said(api: Any, control_plane: KubernetesCluster, project: str) -> None:
    wanted = orders(namespace(project))
    maker = NamespaceMaker(api)
    maker.make(wanted)
    name = f"{project}-development"
    path = f"/api/v1/namespaces/{name}/resourcequotas/project-quota"
    for repairer in (maker, NamespaceMaker(api)):  # of which the second has been started since
        change(control_plane, path, {"spec": {"hard": {"limits.cpu": "999", "pods": "50"}}})
        (report,) = repairer.make(wanted)
        assert states(report)["ResourceQuota/project-quota"] == "repaired"
        assert "somebody" in str(report.objects)
        assert quota(api, name)["limits.cpu"] == "4"
        assert quota(api, name)["pods"] == "50"  # which nobody renders
        (report,) = repairer.make(wanted)
        assert states(report)["ResourceQuota/project-quota"] == "applied"


def test_objects_of_others_are_not_touched_until_they_are_handed_over(
    api: Any, control_plane: KubernetesCluster, project: str
) -> None:
    name = f"{project}-development"
    theirs = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    api._call("POST", "/api/v1/namespaces", theirs)
    wanted = orders(namespace(project))
    maker = NamespaceMaker(api)
    (report,) = maker.make(wanted)
    assert states(report) == {f"Namespace/{name}": "not ours"}
    assert not report.exists
    assert f"kubectl label namespaces {name} {INSTALLATION}=" in report.objects[0]["message"]
    hard = {"spec": {"hard": {"pods": "7"}}}
    own = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "project-quota"}, **hard}
    api._call("POST", f"/api/v1/namespaces/{name}/resourcequotas", own)
    change(control_plane, f"/api/v1/namespaces/{name}", {"metadata": {"labels": {INSTALLATION: wanted.installation}}})
    (report,) = maker.make(wanted)
    assert states(report)["ResourceQuota/project-quota"] == "not ours"
    assert states(report)["LimitRange/task-resources"] == "applied"
    assert quota(api, name) == {"pods": "7"}


def test_what_a_namespace_holds_stays_where_the_namespace_itself_cannot_be_made(
    api: Any, control_plane: KubernetesCluster, project: str
) -> None:
    wanted = orders(namespace(project), prunes_namespaces=True)
    name, maker = f"{project}-development", NamespaceMaker(api)
    maker.make(wanted)
    change(control_plane, f"/api/v1/namespaces/{name}", {"metadata": {"labels": {INSTALLATION: "other"}}})
    (report,) = maker.make(wanted)
    assert states(report) == {f"Namespace/{name}": "not ours"}
    assert quota(api, name)["limits.cpu"] == "4"
    api.get(f"/api/v1/namespaces/{name}/limitranges/task-resources")


def test_a_quota_whose_use_changes_counts_as_unchanged(
    api: Any, control_plane: KubernetesCluster, project: str
) -> None:
    """As with every pod that starts; between the list and the call that applies it, too."""
    wanted = orders(namespace(project))
    path = f"/api/v1/namespaces/{project}-development/resourcequotas/project-quota"
    calls: list[str] = []

    class Busy:
        """The API server of a busy cluster."""

        def get(self, path: str, query: Any = None) -> Any:
            return api.get(path, query)

        def delete(self, path: str) -> None:
            api.delete(path)

        def apply(self, applied: str, document: dict[str, Any]) -> dict[str, Any]:
            calls.append(applied)
            if applied == path and len(calls) > 3:
                change(control_plane, f"{path}/status", {"status": {"used": {"limits.cpu": f"{len(calls)}m"}}})
            answer: dict[str, Any] = api.apply(applied, document)
            return answer

    maker = NamespaceMaker(Busy())
    maker.make(wanted)
    calls.clear()
    change(control_plane, f"{path}/status", {"status": {"used": {"limits.cpu": "2"}}})
    (report,) = maker.make(wanted)
    assert calls == []
    assert set(states(report).values()) == {"applied"}
    calls[:] = ["made before"] * 3
    (report,) = NamespaceMaker(Busy()).make(wanted)  # one that was started since applies everything
    assert path in calls
    assert set(states(report).values()) == {"applied"}


class CountedApi:
    """The API server, and what it was asked for."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self.reads: list[str] = []
        self.writes: list[str] = []

    def get(self, path: str, query: Any = None) -> Any:
        self.reads.append(path)
        return self._api.get(path, query)

    def apply(self, path: str, document: dict[str, Any]) -> Any:
        self.writes.append(path)
        return self._api.apply(path, document)

    def delete(self, path: str) -> None:
        self.writes.append(path)
        self._api.delete(path)


def test_a_round_writes_only_what_has_changed_and_reads_no_more_for_many(api: Any, project: str, scale: Scale) -> None:
    count = scale(10, full=300)
    wanted = [namespace(f"{project}{number}") for number in range(count)]
    counted = CountedApi(api)
    maker = NamespaceMaker(counted)
    begun = time.monotonic()
    maker.make(orders(*wanted))
    made_seconds = time.monotonic() - begun
    assert len(counted.writes) == sum(len(entry.objects) for entry in wanted)
    for written in ([], [f"/api/v1/namespaces/{wanted[1].name}/resourcequotas/project-quota"]):
        if written:
            wanted[1] = namespace(wanted[1].project, **CRA)
        counted.reads, counted.writes = [], []
        begun = time.monotonic()
        reports = maker.make(orders(*wanted))
        print(f"{count} namespaces: {made_seconds:.1f} s, {time.monotonic() - begun:.2f} s, {counted.writes}")
        assert counted.writes == written
        assert len(counted.reads) <= 5  # a list of each kind
        assert {state for report in reports for state in states(report).values()} == {"applied"}


def test_a_namespace_that_somebody_deletes_is_made_again_when_it_is_gone(
    api: Any, control_plane: KubernetesCluster, project: str
) -> None:
    wanted = orders(namespace(project))
    name, maker = f"{project}-development", NamespaceMaker(api)
    maker.make(wanted)
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.org/held"]}}
    api._call("POST", f"/api/v1/namespaces/{name}/configmaps", held)
    api.delete(f"/api/v1/namespaces/{name}")
    for repairer in (maker, NamespaceMaker(api)):
        (report,) = repairer.make(wanted)
        assert report.objects == [
            {
                "object": f"Namespace/{name}",
                "state": "failed",
                "message": "it is being deleted, and is made again when it is gone.",
            }
        ]
        assert not report.exists  # executions wait for it
    gone = orders(namespace(project, "staging"), prunes_namespaces=True)
    reports = {report.namespace: report for report in NamespaceMaker(api).make(gone)}
    assert states(reports[name])[f"Namespace/{name}"] == "pruned"
    change(control_plane, f"/api/v1/namespaces/{name}/configmaps/held", {"metadata": {"finalizers": None}})

    def is_made() -> bool:
        report, *_ = maker.make(wanted)  # and that of the namespace that is left
        return report.exists and states(report)["ResourceQuota/project-quota"] != "failed"

    wait_until(is_made, 60, interval=0.5)
    assert quota(api, name)["limits.cpu"] == "4"


def test_what_is_no_longer_rendered_is_pruned(api: Any, project: str) -> None:
    full = namespace(project)
    gone = namespace(project, "staging")
    maker = NamespaceMaker(api)
    maker.make(orders(full, gone))
    fewer = replace(full, objects=tuple(entry for entry in full.objects if entry["kind"] != "LimitRange"))
    reports = {report.namespace: report for report in maker.make(replace(orders(fewer), may_prune=False))}
    assert states(reports[full.name])["LimitRange/task-resources"] == "orphaned"
    api.get(f"/api/v1/namespaces/{full.name}/limitranges/task-resources")
    reports = {report.namespace: report for report in maker.make(orders(fewer))}
    assert states(reports[full.name])["LimitRange/task-resources"] == "pruned"
    with pytest.raises(ApiRefusal):
        api.get(f"/api/v1/namespaces/{full.name}/limitranges/task-resources")
    assert set(states(reports[gone.name]).values()) == {"orphaned"}
    assert reports[gone.name].project == project
    assert quota(api, gone.name)["limits.cpu"] == "4"
    maker.make(orders(fewer, prunes_namespaces=True))
    wait_until(lambda: api.get(f"/api/v1/namespaces/{gone.name}")["status"]["phase"] == "Terminating")


def test_secrets_and_volume_claims_are_only_reported_where_nothing_says_otherwise(api: Any, project: str) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kept"}, "stringData": {"a": "b"}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "kept"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    full = namespace(project)
    NamespaceMaker(api).make(orders(with_objects(full, secret, claim)))
    for prunes, state in ((False, "orphaned"), (True, "pruned")):
        (report,) = NamespaceMaker(api).make(orders(full, prunes_namespaces=prunes))
        assert {states(report)[name] for name in ("Secret/kept", "PersistentVolumeClaim/kept")} == {state}
    with pytest.raises(ApiRefusal):
        api.get(f"/api/v1/namespaces/{full.name}/secrets/kept")


@pytest.mark.parametrize(
    "text", ["a\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: x}", "x" * 100_000, '"}, kind: {', "{{ project }}"]
)
def test_a_value_is_one_text_on_the_cluster_whatever_it_holds(api: Any, project: str, text: str) -> None:
    full = namespace(project, **DEFAULTS, defaultIamRole=text)
    (report,) = NamespaceMaker(api).make(orders(full))
    assert set(states(report).values()) == {"applied"}
    account = api.get(f"/api/v1/namespaces/{full.name}/serviceaccounts/default")
    assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == text
    assert api.get(f"/api/v1/namespaces/{full.name}/secrets")["items"] == []


def test_the_default_service_account_is_patched_and_never_deleted(api: Any, project: str) -> None:
    with_role = namespace(project, **DEFAULTS, defaultIamRole="arn:aws:iam::1:role/x", imagePullSecrets="one,two")
    without = namespace(project)
    maker = NamespaceMaker(api)
    path = f"/api/v1/namespaces/{with_role.name}/serviceaccounts/default"
    (report,) = maker.make(orders(with_role))
    assert states(report)["ServiceAccount/default"] == "applied"
    account = api.get(path)
    assert account["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    (report,) = maker.make(orders(without))
    assert states(report)["ServiceAccount/default"] == "pruned"
    account = api.get(path)
    assert "imagePullSecrets" not in account
    assert "eks.amazonaws.com/role-arn" not in account["metadata"].get("annotations", {})
    (report,) = maker.make(orders(without))
    assert "ServiceAccount/default" not in states(report)


def test_one_object_that_fails_does_not_hold_up_the_others(api: Any, project: str) -> None:
    wrong = namespace(project, **{**DEFAULTS, "projectQuotaCpu": "many"})
    (report,) = NamespaceMaker(api).make(orders(wrong))
    assert states(report)["ResourceQuota/project-quota"] == "failed"
    assert "quantities must match the regular expression" in str(report.objects)
    assert states(report)["LimitRange/task-resources"] == "applied"


def test_a_cluster_that_does_not_answer_is_said(control_plane: KubernetesCluster, project: str, tmp_path: Path) -> None:
    from agent.engines.kubernetes.resource_api import LightkubeApi

    text = control_plane.kubeconfig.read_text().replace(control_plane.server, "https://127.0.0.1:1")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(text)
    with pytest.raises(ApiUnavailable, match="does not answer"):
        NamespaceMaker(LightkubeApi(str(kubeconfig))).make(orders(namespace(project)))


CRON_JOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "nightly"},
    "spec": {
        "schedule": "0 3 * * *",
        "jobTemplate": {
            "spec": {
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}
            }
        },
    },
}
#: Of a version that its group does not prefer.
SCALER = {
    "apiVersion": "autoscaling/v1",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "scaler"},
    "spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "any"}},
}


def editors(full: Namespace) -> dict[str, Any]:
    """A binding of the namespace that is in none itself."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": full.project}
    metadata = {"name": f"{full.name}-edit"}
    version = "rbac.authorization.k8s.io/v1"
    document = {"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata}
    return {**document, "roleRef": role, "subjects": [group]}


def with_objects(full: Namespace, *objects: dict[str, Any]) -> Namespace:
    return replace(full, objects=(*full.objects, *objects))


def test_what_an_earlier_agent_made_of_any_kind_is_pruned(api: Any, project: str) -> None:
    full = namespace(project)
    NamespaceMaker(api).make(orders(with_objects(full, CRON_JOB, SCALER)))
    (report,) = NamespaceMaker(api).make(orders(with_objects(full, SCALER)))
    assert states(report)["CronJob.batch/nightly"] == "pruned"
    assert states(report)["HorizontalPodAutoscaler.autoscaling/scaler"] == "applied"
    later = NamespaceMaker(api)
    (report,) = later.make(orders(full))
    assert states(report)["HorizontalPodAutoscaler.autoscaling/scaler"] == "pruned"
    (report,) = later.make(orders(full))
    assert set(states(report).values()) == {"applied"}


def test_what_was_deleted_by_hand_is_made_again_and_said(api: Any, project: str) -> None:
    full = namespace(project)
    maker = NamespaceMaker(api)
    (report,) = maker.make(orders(full))
    assert set(states(report).values()) == {"applied"}
    told = frozenset(states(report))
    path = f"/api/v1/namespaces/{full.name}/limitranges/task-resources"
    # An agent that was started since knows of it by what the admin was told.
    for repairer, wanted in ((maker, full), (NamespaceMaker(api), replace(full, made=told))):
        api.delete(path)
        (report,) = repairer.make(orders(wanted))
        (entry,) = (entry for entry in report.objects if entry["object"] == "LimitRange/task-resources")
        assert (entry["state"], entry["message"]) == ("repaired", "it had been deleted.")
        api.get(path)
        (report,) = repairer.make(orders(wanted))
        assert set(states(report).values()) == {"applied"}


def test_an_object_in_no_namespace_counts_to_the_one_that_it_was_made_for(api: Any, project: str) -> None:
    full = namespace(project)
    binding = editors(full)
    identity = f"ClusterRoleBinding.rbac.authorization.k8s.io/{full.name}-edit"
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{full.name}-edit"
    (report,) = NamespaceMaker(api).make(orders(with_objects(full, binding)))
    assert states(report)[identity] == "applied"
    other = namespace(project, "staging")
    reports = NamespaceMaker(api).make(orders(full, other))
    assert [report.namespace for report in reports] == [other.name, full.name]  # what is missing comes first
    assert states(reports[1])[identity] == "pruned"
    with pytest.raises(ApiRefusal):
        api.get(path)
    NamespaceMaker(api).make(orders(with_objects(full, binding)))
    reports = NamespaceMaker(api).make(orders(other, installation=f"i{project}"))
    assert {report.namespace: states(report).get(identity) for report in reports} == {
        other.name: None,
        full.name: "orphaned",
    }
    api.delete(path)


def test_a_server_of_one_kind_that_is_away_holds_up_no_other_object(api: Any, project: str) -> None:
    group = f"{project}.example.org"
    service = {"name": "absent", "namespace": "default"}
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "service": service}
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    name = f"v1.{group}"
    api._call("POST", path, {"metadata": {"name": name}, "spec": {**spec, "insecureSkipTLSVerify": True}})
    try:
        thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "thing"}}
        wait_until(lambda: is_away(api, f"/apis/{group}/v1"), 30)
        told: list[str] = []
        full, other = with_objects(namespace(project), thing), namespace(project, "staging")
        made, _ = NamespaceMaker(api).make(orders(full, other), lambda report: told.append(report.namespace))
        assert told == [full.name, other.name]
        assert states(made)["Thing/thing"] == "failed"
        assert states(made)["ResourceQuota/project-quota"] == "applied"
        assert quota(api, other.name)["limits.cpu"] == "4"
    finally:
        api.delete(f"{path}/{name}")


def is_away(api: Any, path: str) -> bool:
    try:
        api.get(path)
    except ApiUnavailable:
        return True
    except ApiRefusal:
        return False
    return False
