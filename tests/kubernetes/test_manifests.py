"""The manifests that are shipped: the API server takes them, and the rights in them are enough and no more."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from admin.configuration import load_settings
from agent.cluster_resources.maker import NamespaceMaker
from agent.config import load_config
from agent.engines.base import EngineUnavailable, Task
from agent.engines.kubernetes.api import Api, Refusal
from agent.engines.kubernetes.janitor import Janitor
from agent.engines.kubernetes.resource_api import LightkubeApi
from agent.engines.resource_api import ApiRefusal
from tests.kubernetes.conftest import MakeEngine
from tests.kubernetes.test_cluster_resources import CRA, namespace, orders, states
from tests.support.kubernetes import STRANGER, KubernetesCluster
from tests.support.programs import clean_environment
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
    beside = {"kustomization.yaml", "prune-namespaces.yaml", "migrate.yaml", "Containerfile"}
    assert {*base["resources"]} | beside == {path.name for path in _DIRECTORY.iterdir()}
    for document in in_base("Deployment", "StatefulSet", "ConfigMap", "Service"):
        # A dry run with strict validation: an unknown field is an error.
        api.create(f"{_PATHS[document['kind']]}?dryRun=All&fieldValidation=Strict", document)
    assert api.get(_PATHS["Deployment"])["items"] == []
    (migration,) = documents("migrate.yaml")
    api.create("/apis/batch/v1/namespaces/rainbow/jobs?dryRun=All&fieldValidation=Strict", migration)


def test_the_steps_of_an_upgrade_are_in_order_in_the_manifest_and_the_docs() -> None:
    (admin,) = [document for document in in_base("Deployment") if document["metadata"]["name"] == "rainbow-admin"]
    ((label, value),) = admin["spec"]["template"]["metadata"]["labels"].items()
    steps = [
        "scale deployment rainbow-admin --replicas 0",
        f"wait --for=delete pod -l {label}={value} ",
        "delete job rainbow-migrate --ignore-not-found",
        "apply -f config/kubernetes/migrate.yaml",
        "get job rainbow-migrate -o jsonpath='{.status.conditions[*].type}'",
        "apply -k config/kubernetes",
    ]
    for text in (_DIRECTORY / "migrate.yaml", _DIRECTORY.parents[1] / "docs" / "operations.md"):
        places = [text.read_text(encoding="utf-8").find(step) for step in steps]
        assert -1 not in places, text
        assert places == sorted(places), text


def in_base(*kinds: str) -> list[dict[str, Any]]:
    """What the base makes of some kinds, all in its namespace."""
    (base,) = documents("kustomization.yaml")
    assert base["namespace"] == "rainbow"
    return [document for name in base["resources"] for document in documents(name) if document["kind"] in kinds]


def test_whatever_the_base_names_is_in_it_or_is_made_as_it_says() -> None:
    made = {(document["kind"], document["metadata"]["name"]) for document in in_base(*_PATHS, "Namespace")}
    commands = (_DIRECTORY / "kustomization.yaml").read_text(encoding="utf-8")
    (base,) = documents("kustomization.yaml")
    for document in in_base("Deployment", "StatefulSet"):
        pod = document["spec"]["template"]["spec"]
        named = [("ServiceAccount", pod[key]) for key in ("serviceAccountName",) if key in pod]
        named += [("ConfigMap", volume["configMap"]["name"]) for volume in pod["volumes"] if "configMap" in volume]
        assert set(named) <= made, named
        for secret in (volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume):
            assert f"create secret generic {secret} " in commands
        mounts = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
        claims = {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", ())}
        assert mounts == {volume["name"] for volume in pod["volumes"]} | claims
        assert {container["image"] for container in pod["containers"]} == {image["name"] for image in base["images"]}
    for document in in_base("RoleBinding", "ClusterRoleBinding"):
        role = document["roleRef"]
        assert (role["kind"], role["name"]) in made
        assert {(subject["kind"], subject["name"]) for subject in document["subjects"]} <= made


def test_the_programs_take_the_configurations_in_the_base(tmp_path: Path) -> None:
    files = {name: text for document in in_base("ConfigMap") for name, text in document["data"].items()}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert load_settings(str(tmp_path / "rainbow.yaml"), {}, {}).cluster_resources.template_path is None
    assert load_config(tmp_path / "agent.yaml", {}).engine == "kubernetes"


def test_the_image_has_what_the_manifests_run() -> None:
    text = (_DIRECTORY / "Containerfile").read_text(encoding="utf-8")
    top = _DIRECTORY.parents[1]
    for line in text.splitlines():
        if line.startswith("COPY"):
            assert all((top / source).exists() for source in line.split()[1:-1]), line
    scripts = (top / "setup.cfg").read_text(encoding="utf-8")
    for document in (*in_base("Deployment", "StatefulSet"), *documents("migrate.yaml")):
        pod = document["spec"]["template"]["spec"]
        assert f"--uid {pod['securityContext']['runAsUser']} " in text
        for container in pod["containers"]:
            assert f"\n    {container['command'][0]} = " in scripts


@pytest.mark.skipif(os.geteuid() != 0, reason="the directory of a pod's service account is made in a mount namespace")
def test_in_a_pod_its_service_account_is_used_unless_a_kubeconfig_is_named(
    api: Api, control_plane: KubernetesCluster, tmp_path: Path
) -> None:
    apply("rights.yaml", api)
    (tmp_path / "token").write_text(token_of(api, "rainbow-agent"))
    (tmp_path / "namespace").write_text("rainbow")
    authority = yaml.safe_load(control_plane.kubeconfig.read_text())["clusters"][0]["cluster"]["certificate-authority"]
    (tmp_path / "ca.crt").write_text(Path(authority).read_text())
    mount = "mount -t tmpfs tmpfs /run; mkdir -p /run/secrets/kubernetes.io; cp -r $0 /run/secrets/kubernetes.io/"
    script = (
        "from agent.engines.kubernetes.api import Api\n"
        "print(Api().get('/apis/batch/v1/jobs')['kind'])\n"
        "Api().get('/api/v1/secrets')"
    )
    account = tmp_path / "serviceaccount"
    account.mkdir()
    for name in ("token", "namespace", "ca.crt"):
        (tmp_path / name).rename(account / name)

    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        host, _, port = control_plane.server.removeprefix("https://").partition(":")
        variables = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, **environment}
        words = ["unshare", "--mount", "sh", "-ec", f'{mount}; exec "$1" -c "$2"', str(account), sys.executable, script]
        return subprocess.run(
            words, env=clean_environment(**variables), cwd=_DIRECTORY.parents[1], capture_output=True, text=True
        )

    done = run()
    assert done.stdout == "JobList\n", done.stderr
    assert 'User "system:serviceaccount:rainbow:rainbow-agent" cannot list resource "secrets"' in done.stderr
    stranger = control_plane.write_kubeconfig(tmp_path / "stranger", STRANGER)
    assert 'User "stranger" cannot list resource "jobs"' in run(KUBECONFIG=f"{tmp_path / 'none'}:{stranger}").stderr
    assert "KUBECONFIG: cannot be used" in run(KUBECONFIG=str(tmp_path / "none")).stderr


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
    with pytest.raises(ApiRefusal, match='cannot delete resource "namespaces"'):
        calls.delete(f"/api/v1/namespaces/{full.name}")
    apply("prune-namespaces.yaml", api)
    wait_until(lambda: may_delete(calls, full.name), 30, interval=0.2)
    calls.close()
    for document in documents("prune-namespaces.yaml"):
        api.delete(f"{_PATHS[document['kind']]}/{document['metadata']['name']}")


def may_delete(calls: LightkubeApi, name: str) -> bool:
    with suppress(ApiRefusal):
        calls.delete(f"/api/v1/namespaces/{name}")
        return True
    return False


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
