"""Namespaces by a real admin and a real agent on a real API server: what is set by rainbowctl reaches the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

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
DEFAULTS = {"limits.cpu": "4", "limits.memory": "3000Mi"}


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    directory = tmp_path_factory.mktemp("admin")
    (directory / "registration.secret").write_text(SECRET)
    document = {
        "clusters": {"registrationSecretFile": str(directory / "registration.secret")},
        "cluster_resources": {
            "templateData": {"projectQuotaCpu": "4", "projectQuotaMemory": "3000Mi"},
            "refreshInterval": "1s",
        },
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
