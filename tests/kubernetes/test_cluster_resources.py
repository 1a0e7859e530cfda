"""Namespaces on a real API server: applied, repaired, pruned, and never touched where they are others'."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from admin.configuration.template_files import TemplateFiles
from admin.core.cluster_resources.rendering import render
from admin.core.cluster_resources.values import Value
from admin.core.settings.scopes import Scope
from agent.cluster_resources.maker import INSTALLATION, Namespace, NamespaceMaker, Orders, Report
from agent.engines.resource_api import ApiRefusal, ApiUnavailable
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
        change(control_plane, path, {"spec": {"hard": {"limits.cpu": "999"}}})
        (report,) = repairer.make(wanted)
        assert states(report)["ResourceQuota/project-quota"] == "repaired"
        assert "somebody" in str(report.objects)
        assert quota(api, name)["limits.cpu"] == "4"
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
