"""The manifests that are shipped: the API server takes them, and the rights in them are enough and no more."""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.cluster_resources.maker import NamespaceMaker
from agent.engines.base import EngineUnavailable, Task
from agent.engines.kubernetes.api import Api, Refusal
from agent.engines.kubernetes.janitor import Janitor
from agent.engines.kubernetes.resource_api import LightkubeApi
from tests.kubernetes.conftest import MakeEngine
from tests.kubernetes.test_cluster_resources import CRA, namespace, orders, states
from tests.support.kubernetes import KubernetesCluster
from tests.support.waiting import wait_until

_DIRECTORY = Path(__file__).parents[2] / "config/kubernetes"
_PATHS = {
    "ServiceAccount": "/api/v1/namespaces/rainbow/serviceaccounts",
    "Service": "/api/v1/namespaces/rainbow/services",
    "ConfigMap": "/api/v1/namespaces/rainbow/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/rainbow/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/rainbow/statefulsets",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/rainbow/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/rainbow/rolebindings",
}


def documents(name: str) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all((_DIRECTORY / name).read_text(encoding="utf-8"))]


def token_of(api: Api, account: str) -> str:
    path = f"/api/v1/namespaces/rainbow/serviceaccounts/{account}/token"
    answer = api.create(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    return str(answer["status"]["token"])


def test_the_base_names_every_manifest_and_the_api_server_takes_them(api: Api) -> None:
    (base,) = documents("kustomization.yaml")
    assert {*base["resources"], "kustomization.yaml"} == {path.name for path in _DIRECTORY.iterdir()}
    for name in ("admin.yaml", "agent.yaml"):
        for document in documents(name):
            # A dry run with strict validation: an unknown field is an error.
            api.create(f"{_PATHS[document['kind']]}?dryRun=All&fieldValidation=Strict", document)


def test_the_agents_rights_for_namespaces_are_enough_for_the_built_in_templates(
    api: Api, control_plane: KubernetesCluster, tmp_path: Path
) -> None:
    apply("rights.yaml", api)
    apply("cluster-resources.yaml", api)
    kubeconfig = control_plane.write_kubeconfig(tmp_path / "agent", token_of(api, "rainbow-agent"))
    calls = LightkubeApi(str(kubeconfig))
    project = f"p{secrets.token_hex(4)}"
    maker, full = NamespaceMaker(calls), namespace(project, **CRA, imagePullSecrets="pull")
    (report,) = maker.make(orders(full))
    assert set(states(report).values()) == {"applied"}
    bare = replace(full, objects=tuple(entry for entry in full.objects if entry["kind"] == "Namespace"))
    (report,) = maker.make(orders(bare))
    assert set(states(report).values()) == {"applied", "pruned"}
    calls.close()


def apply(name: str, api: Api) -> None:
    """Create what a manifest has, unless another test has."""
    for document in documents(name):
        with suppress(Refusal):
            api.create(f"{_PATHS[document['kind']]}?fieldValidation=Strict", document)


def test_the_agents_rights_are_enough_and_no_more(
    api: Api, cluster: KubernetesCluster, namespace: str, make_engine: MakeEngine, tmp_path: Path
) -> None:
    apply("rights.yaml", api)
    accounts = {
        name: str(cluster.write_kubeconfig(tmp_path / name, token_of(api, name)))
        for name in ("rainbow-agent", "rainbow-janitor")
    }
    janitor = Janitor({"kubeconfig": accounts["rainbow-janitor"], "cluster": namespace})
    janitor.step()
    is_over = threading.Event()
    thread = threading.Thread(target=janitor.run, args=(is_over.is_set,))
    thread.start()
    engine = make_engine(kubeconfig=accounts["rainbow-agent"])
    job = {"command": ["sh", "-c", "echo hello > out; sleep 600"], "outputs": ["out"]}
    task = Task(key="rb-12-job-1", job=job, directory=engine.directory / "rb-12-job-1", lease_seconds=2.0)
    handle = engine.submit(task)
    engine.close()  # as if the agent had died: only the janitor can end the Job
    other = make_engine(kubeconfig=accounts["rainbow-agent"])
    other.capacity()

    def reason() -> str:
        state = other.states([handle]).get(handle.key)
        return state.reason if state is not None else ""

    wait_until(lambda: reason() == "CLUSTER_LOST", interval=0.2, explain=lambda: str(other.states([handle])))
    other.forget(handle)
    is_over.set()
    thread.join()
    for path in (f"/api/v1/namespaces/{namespace}/secrets", f"/api/v1/namespaces/{namespace}/configmaps"):
        with pytest.raises(EngineUnavailable, match="cannot list resource"):
            other.api.get(path)
    janitor.api.close()
