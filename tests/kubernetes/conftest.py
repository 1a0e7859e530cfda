"""One cluster for all tests here, with a namespace for each of them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.kubernetes import KubernetesEngine
from agent.engines.kubernetes.api import Api
from tests.support import programs
from tests.support.admins import RunningAdmin
from tests.support.agent_processes import Site, running_site
from tests.support.kubernetes import (
    IMAGE,
    KubernetesCluster,
    node_programs,
    running_kubernetes,
    server_binary,
    why_no_node,
)

MakeEngine = Callable[..., KubernetesEngine]


@pytest.fixture(scope="session")
def control_plane() -> Iterator[KubernetesCluster]:
    """A cluster that may be without a node."""
    binary = server_binary()
    if binary is None:
        pytest.skip("Kubernetes is not built: run make test-kubernetes")
    with running_kubernetes(binary) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster(control_plane: KubernetesCluster) -> KubernetesCluster:
    """A cluster with a node."""
    if reason := why_no_node():
        pytest.skip(reason)
    programs = node_programs()
    assert programs is not None
    control_plane.start_node(programs)
    return control_plane


@pytest.fixture(scope="session")
def api(control_plane: KubernetesCluster) -> Iterator[Api]:
    """The administrator's."""
    api = Api(str(control_plane.kubeconfig))
    api.create("/api/v1/namespaces", {"metadata": {"name": "rainbow"}})
    yield api
    api.close()


@pytest.fixture
def namespace(api: Api) -> str:
    """A namespace that pods can be created in."""
    return make_namespace(api)


def make_namespace(api: Api) -> str:
    name = f"test-{secrets.token_hex(4)}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    # Pods wait for it; the controller manager makes it too, and may be first.
    api.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": {"rainbow/test": "true"}}})
    return name


@pytest.fixture
def make_engine(control_plane: KubernetesCluster, namespace: str, tmp_path: Path) -> Iterator[MakeEngine]:
    """Makes engines of the test's own namespace."""
    engines: list[KubernetesEngine] = []

    def make(directory: Path = tmp_path, clock: Clock = SYSTEM_CLOCK, **options: Any) -> KubernetesEngine:
        defaults = {
            "kubeconfig": str(control_plane.kubeconfig),
            "cluster": namespace,
            "namespace": namespace,
            "image": IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "graceSeconds": 1,
        }
        engine = KubernetesEngine({**defaults, **options}, directory, clock=clock)
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.close()


MakeSite = Callable[..., Site]


@pytest.fixture
def make_site(control_plane: KubernetesCluster, api: Api, tmp_path: Path) -> Iterator[MakeSite]:
    """Registers clusters of the Kubernetes engine, each with a namespace of its own for all its executions."""
    with ExitStack() as stack:

        def make(admin: RunningAdmin, **options: Any) -> Site:
            place = make_namespace(api)
            settings = site_settings(control_plane, place, **options)
            return stack.enter_context(running_site(admin, tmp_path / place, **settings))

        yield make


def site_settings(control_plane: KubernetesCluster, namespace: str, **options: Any) -> dict[str, Any]:
    """The settings of a site with one namespace for all its executions."""
    defaults = {
        "kubeconfig": str(control_plane.kubeconfig),
        "namespace": namespace,
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "graceSeconds": 1,
    }
    return {"engine": "kubernetes", "engine_options": {**defaults, **options}, "slots": 50}


@contextmanager
def running_janitor(site: Site) -> Iterator[Path]:
    """The janitor of a site, and the file that it logs to."""
    path = site.directory / "janitor.log"
    with path.open("wb") as log:
        configuration = str(site.directory / "agent.yaml")
        janitor = programs.start(
            "rainbow-agent", "janitor", "--config", configuration, env=site.variables(), stdout=log, stderr=log
        )
    try:
        yield path
    finally:
        janitor.kill()
        janitor.wait()


def has_janitor(api: Api, site: Site) -> bool:
    """Whether the janitor of a site has renewed its Lease; without it what must end with its lease is declined."""
    leases = api.get("/apis/coordination.k8s.io/v1/namespaces/rainbow/leases")["items"]
    return any(lease["metadata"]["name"].startswith(f"rainbow-janitor-{site.cluster}") for lease in leases)
