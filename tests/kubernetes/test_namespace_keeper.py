"""Namespaces by a real admin and a real agent on a real API server: what is set by rainbowctl reaches the cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import admin.configuration as admin_configuration
from agent.engines.kubernetes.api import Api
from tests.support.admins import RunningAdmin, running_admin
from tests.support.agent_processes import SECRET, Site, running_site
from tests.support.kubernetes import STRANGER, KubernetesCluster
from tests.support.shells import Shell
from tests.support.waiting import wait_until

pytest.importorskip("lightkube")

HERE = "-p flyteexamples -d development"
CRA = """\
domain: development
project: flyteexamples
attributes:
  projectQuotaCpu: "1000"
  projectQuotaMemory: 5Ti
"""
#: A template of one's own.
NOTE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: note}
data: {of: "{{ project }}/{{ domain }}"}
"""
BUILT_IN = Path(admin_configuration.__file__).parent / "cluster_resource_templates"
OPTIONAL = re.compile("projectQuota(Gpu|EphemeralStorage|Pods)")
DEFAULTS = {"limits.cpu": "4", "limits.memory": "3000Mi"}


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    resources = {
        "templateData": {"projectQuotaCpu": "4", "projectQuotaMemory": "3000Mi"},
        "refreshInterval": "1s",
    }
    with configured_admin(tmp_path_factory.mktemp("admin"), resources) as admin:
        yield admin


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of templates: the built-in ones, and one more."""
    directory = tmp_path_factory.mktemp("templates")
    for path in BUILT_IN.glob("*.yaml"):
        # Templates of one's own have no fields that may be left out.
        if path.name.startswith(("1-", "3-")):
            lines = path.read_text().splitlines(keepends=True)
            (directory / path.name).write_text("".join(line for line in lines if not OPTIONAL.search(line)))
    (directory / "5-note.yaml").write_text(NOTE)
    return directory


@pytest.fixture(scope="module")
def admin_of_templates(tmp_path_factory: pytest.TempPathFactory, templates: Path) -> Iterator[RunningAdmin]:
    directory = tmp_path_factory.mktemp("admin-of-templates")
    resources = {
        "templatePath": str(templates),
        "templateData": {"projectQuotaCpu": "4", "projectQuotaMemory": "3000Mi"},
        "refreshInterval": "1s",
    }
    mapping = {"template": "t-{{ project }}-{{ domain }}"}
    with configured_admin(directory, resources, namespace_mapping=mapping) as admin:
        yield admin


@contextmanager
def configured_admin(directory: Path, resources: dict[str, Any], **sections: Any) -> Iterator[RunningAdmin]:
    (directory / "registration.secret").write_text(SECRET)
    document = {
        "clusters": {"registrationSecretFile": str(directory / "registration.secret")},
        "cluster_resources": resources,
        **sections,
    }
    path = directory / "rainbow.yaml"
    path.write_text(yaml.safe_dump(document))
    with running_admin(directory, "--config", str(path)) as admin:
        yield admin


@pytest.fixture
def shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def site_of(admin: RunningAdmin, directory: Path, kubeconfig: Path) -> Any:
    options = {"kubeconfig": str(kubeconfig), "timeoutSeconds": 5}
    return running_site(admin, directory, engine="kubernetes", engine_options=options)


def quota(control_plane: KubernetesCluster, namespace: str) -> Any:
    text = control_plane.read(f"/api/v1/namespaces/{namespace}/resourcequotas/project-quota")
    return json.loads(text)["spec"]["hard"] if text else None


def namespace_on(shell: Shell, site: Site) -> Any:
    """What rainbowctl says of the namespace of the examples on a cluster."""
    answer = json.loads(shell.ok(f"rainbowctl get cluster-resources {HERE} --cluster {site.cluster} -o json"))
    return answer["namespaces"][0]["clusters"][0]


def test_an_attribute_reaches_the_cluster_and_goes_back(
    control_plane: KubernetesCluster, admin: RunningAdmin, shell: Shell, tmp_path: Path
) -> None:
    (shell.cwd / "cra.yaml").write_text(CRA)
    with site_of(admin, tmp_path / "site", control_plane.kubeconfig) as site:
        shell.ok(f"rainbowctl update cluster {site.cluster} --clusterResources --force")
        site.start()

        def has_quota(hard: dict[str, str]) -> None:
            wait_until(
                lambda: quota(control_plane, "flyteexamples-development") == hard, 60, explain=lambda: site.log[-3000:]
            )

        has_quota(DEFAULTS)
        shell.ok("rainbowctl update cluster-resource-attribute --attrFile cra.yaml --force")
        has_quota({"limits.cpu": "1k", "limits.memory": "5Ti"})
        wait_until(lambda: namespace_on(shell, site)["state"] == "applied")
        assert quota(control_plane, "flyteexamples-staging") == DEFAULTS
        shown = shell.ok(f"rainbowctl get cluster-resources {HERE}")
        assert "ResourceQuota/project-quota" in shown
        control_plane.kill_api_server()
        site.wait_for_log("namespaces cannot be made")
        shell.ok(f"rainbowctl delete cluster-resource-attribute {HERE} --force")
        control_plane.start_api_server()
        has_quota(DEFAULTS)
        site.wait_for_log("namespaces are made again")
        assert site.agents[0].poll() is None


def test_an_agent_without_rights_goes_on_and_says_which_are_missing(
    control_plane: KubernetesCluster, admin: RunningAdmin, shell: Shell, tmp_path: Path
) -> None:
    kubeconfig = control_plane.write_kubeconfig(tmp_path / "stranger", STRANGER)
    with site_of(admin, tmp_path / "site", kubeconfig) as site:
        shell.ok(f"rainbowctl update cluster {site.cluster} --clusterResources --force")
        site.start()
        wait_until(lambda: namespace_on(shell, site)["state"] == "failed", 60, explain=lambda: site.log[-3000:])
        (entry,) = namespace_on(shell, site)["objects"]
        assert 'User "stranger" cannot' in entry["message"]
        assert not namespace_on(shell, site)["exists"]
        assert site.agents[0].poll() is None


def test_one_unreachable_cluster_does_not_hold_up_the_others(
    control_plane: KubernetesCluster, admin: RunningAdmin, shell: Shell, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    away.write_text(control_plane.kubeconfig.read_text().replace(control_plane.server, "https://127.0.0.1:1"))
    (shell.cwd / "cra.yaml").write_text(CRA)
    with (
        site_of(admin, tmp_path / "unreachable", away) as unreachable,
        site_of(admin, tmp_path / "site", control_plane.kubeconfig) as site,
    ):
        for entry in (unreachable, site):
            shell.ok(f"rainbowctl update cluster {entry.cluster} --clusterResources --force")
            entry.start()
        unreachable.wait_for_log("namespaces cannot be made: the Kubernetes API server does not answer")
        plan = shell.ok("rainbowctl update cluster-resource-attribute --attrFile cra.yaml --dryRun")
        assert "Namespace flyteexamples-development on" in plan
        assert "ResourceQuota/project-quota" in plan
        assert unreachable.cluster in plan
        shell.ok("rainbowctl update cluster-resource-attribute --attrFile cra.yaml --force")
        wait_until(lambda: namespace_on(shell, site)["state"] == "applied", 60, explain=lambda: site.log[-3000:])
        wait_until(lambda: quota(control_plane, "flyteexamples-development")["limits.cpu"] == "1k")
        assert namespace_on(shell, unreachable)["state"] == "pending"
        shell.ok(f"rainbowctl delete cluster-resource-attribute {HERE} --force")


def test_templates_hand_edits_and_objects_of_others(
    control_plane: KubernetesCluster, api: Api, admin_of_templates: RunningAdmin, templates: Path, tmp_path: Path
) -> None:
    shell = Shell(admin_of_templates, tmp_path)
    theirs = "t-flyteexamples-staging"
    api.create("/api/v1/namespaces", {"metadata": {"name": theirs, "labels": {"team": "other"}}})
    mine = "t-flyteexamples-development"
    with site_of(admin_of_templates, tmp_path / "site", control_plane.kubeconfig) as site:
        shell.ok(f"rainbowctl update cluster {site.cluster} --clusterResources --force")
        site.start()
        note = f"/api/v1/namespaces/{mine}/configmaps/note"
        wait_until(lambda: control_plane.get(note) == 200, 60, explain=lambda: site.log[-3000:])
        assert quota(control_plane, mine) == DEFAULTS
        api.patch(f"/api/v1/namespaces/{mine}/resourcequotas/project-quota", {"spec": {"hard": {"limits.cpu": "999"}}})
        wait_until(lambda: quota(control_plane, mine) == DEFAULTS, 60, explain=lambda: site.log[-3000:])
        wait_until(lambda: "others had changed it" in shell.ok(f"rainbowctl get cluster-resources {HERE} -o json"))
        text = (templates / "5-note.yaml").read_text()
        (templates / "5-note.yaml").write_text("{% for a in b %}")
        wait_until(lambda: "loops" in shell.ok(f"rainbowctl get cluster-resources {HERE} -o json"), interval=0.5)
        assert control_plane.get(note) == 200  # nothing is pruned while a template fails
        (templates / "5-note.yaml").write_text(text)
        wait_until(lambda: namespace_on(shell, site)["state"] in ("applied", "repaired"), 60, interval=0.5)
        (templates / "5-note.yaml").unlink()
        wait_until(lambda: control_plane.get(note) == 404, 60, interval=0.5, explain=lambda: site.log[-3000:])
        listed = json.loads(shell.ok("rainbowctl get cluster-resources -p flyteexamples -d staging -o json"))
        assert listed["namespaces"][0]["clusters"][0]["state"] == "not ours"
        other = api.get(f"/api/v1/namespaces/{theirs}")["metadata"]
        assert "rainbow/installation" not in other["labels"]
        assert "rainbow" not in [entry["manager"] for entry in other.get("managedFields", [])]
        assert quota(control_plane, theirs) is None
