"""The kustomize base as it is deployed: by kubectl, in a cluster, with its own rights and its probes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.engines.kubernetes.api import Api
from tests.support.addresses import loopback_addresses
from tests.support.agent_processes import Wire, wire_to
from tests.support.kubernetes import IMAGE, NODE, KubernetesCluster, kubectl_program, node_programs
from tests.support.ports import free_port
from tests.support.postgresql import binaries, running_postgresql
from tests.support.programs import ROOT, clean_environment
from tests.support.rainbow_image import rainbow_image
from tests.support.servers import ended_with_us
from tests.support.waiting import wait_until

BASE = ROOT / "config/kubernetes"
PROJECT = "-p flyteexamples -d development"
#: What stands in for the cluster's network: addresses of services, which no kube-proxy serves here.
API_SERVER, ADMIN, DATABASE = "10.96.0.1", "10.96.0.2", "10.96.0.3"
SERVER_PORT, ADMIN_PORT, DATABASE_PORT = 443, 8088, 5432


def patches(mark: str) -> list[dict[str, Any]]:
    """What a site changes of the base: here also what its cluster has no DNS for, and quicker probes."""
    namespace = f"{mark}-{{{{ project }}}}-{{{{ domain }}}}"
    service = {"spec": {"clusterIP": ADMIN}}
    aliases = {"hostAliases": [{"ip": ADMIN, "hostnames": ["rainbow-admin"]}], "terminationGracePeriodSeconds": 2}
    probe = {"livenessProbe": {"periodSeconds": 2}}
    agent = {**aliases, "containers": [{"name": "agent", **probe}]}
    admin_options = {**configuration("admin"), "namespace_mapping": {"template": namespace}}
    agent_options = {**configuration("agent"), "engineOptions": {"namespace": namespace}}
    return [
        patch("Service", "rainbow-admin", **service),
        patch("StatefulSet", "rainbow-agent", spec={"template": {"spec": agent}}),
        patch("Deployment", "rainbow-janitor", spec={"template": {"spec": aliases}}),
        patch("ConfigMap", "rainbow-agent", data={"agent.yaml": yaml.safe_dump(agent_options)}),
        patch("ConfigMap", "rainbow-admin", data={"rainbow.yaml": yaml.safe_dump(admin_options)}),
    ]


def configuration(program: str) -> dict[str, Any]:
    """What the base has for a program's configuration file."""
    documents = yaml.safe_load_all((BASE / f"{program}.yaml").read_text())
    (text,) = next(document for document in documents if document["kind"] == "ConfigMap")["data"].values()
    options: dict[str, Any] = yaml.safe_load(text)
    return options


def patch(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    version = "apps/v1" if kind in ("StatefulSet", "Deployment") else "v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """The base in a cluster, as its operator sees it."""

    cluster: KubernetesCluster
    program: Path  #: kubectl
    directory: Path
    mark: str  #: begins the names of the namespaces that its agent makes

    def kubectl(self, *words: str, refused: bool = False) -> str:
        """What kubectl prints."""
        done = subprocess.run(
            [self.program, *words],
            env=self.environment,
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode != 0) == refused, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout + (done.stderr if refused else "")

    @property
    def environment(self) -> dict[str, str]:
        return clean_environment(KUBECONFIG=str(self.cluster.kubeconfig), HOME=str(self.directory))

    def pods(self, name: str) -> list[dict[str, Any]]:
        """The pods of a Deployment or a StatefulSet."""
        text = self.kubectl("-n", "rainbow", "get", "pods", "-l", f"app.kubernetes.io/name={name}", "-o", "json")
        items: list[dict[str, Any]] = json.loads(text)["items"]
        return items

    def are_ready(self, name: str, count: int = 1) -> bool:
        pods = self.pods(name)
        ready = [pod for pod in pods if any(entry["ready"] for entry in pod["status"].get("containerStatuses", ()))]
        return len(ready) == len(pods) == count

    def restarts(self, name: str) -> int:
        return sum(entry["restartCount"] for pod in self.pods(name) for entry in pod["status"]["containerStatuses"])

    def explain(self) -> str:
        """Every pod, what happened to it, and the ends of the logs."""
        texts = []
        for words in (("get", "pods", "-A", "-o", "wide"), ("get", "events", "-A", "--sort-by=.lastTimestamp")):
            texts.append(self.kubectl(*words)[-6000:])
        for name in ("rainbow-admin", "rainbow-agent", "rainbow-janitor"):
            with suppress(AssertionError):
                log = self.kubectl("-n", "rainbow", "logs", "-l", f"app.kubernetes.io/name={name}", "--tail=10")
                texts.append(f"{name}: {log}")
        return "\n".join(texts)

    def wait_until_ready(self, name: str, count: int = 1) -> None:
        wait_until(lambda: self.are_ready(name, count), 240, interval=1.0, explain=self.explain)

    def ctl(self, endpoint: str, line: str) -> str:
        """What rainbowctl prints."""
        words = ["timeout", "180", "rainbowctl", "--endpoint", endpoint, "--token-file", "api.token", *line.split()]
        done = subprocess.run(words, env=self.environment, cwd=self.directory, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}\n{self.explain()}"
        return done.stdout


@pytest.fixture
def deployed(cluster: KubernetesCluster, api: Api, namespace: str, tmp_path: Path) -> Iterator[Deployed]:
    """A cluster with an image of Rainbow, a volume for the agent, and none of what the base makes."""
    programs, kubectl = node_programs(), kubectl_program()
    assert programs is not None
    if kubectl is None:
        pytest.skip("there is no kubectl: run tests/kubernetes/build-kubectl")
    if binaries() is None:
        pytest.skip("there is no PostgreSQL")
    cluster.add_image(programs, rainbow_image("localhost/rainbow:1", programs / "bin/busybox"))
    (tmp_path / "state").mkdir()
    volume = f"agent-{namespace}"
    match = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
    spec = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": str(tmp_path / "state")},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [match]}]}},
    }
    api.create("/api/v1/persistentvolumes", {"metadata": {"name": volume}, "spec": spec})
    deployed = Deployed(cluster=cluster, program=kubectl, directory=tmp_path, mark=namespace)
    yield deployed
    for kinds in ("deployments,statefulsets", "pods,services,persistentvolumeclaims,leases"):
        deployed.kubectl("-n", "rainbow", "delete", kinds, "--all", "--wait=false")
    for kind in ("secret", "configmap"):
        deployed.kubectl("-n", "rainbow", "delete", kind, "rainbow-admin", "rainbow-agent", "--ignore-not-found")
    deployed.kubectl("delete", "persistentvolumes", volume, "--wait=false")
    made = [name for name in deployed.kubectl("get", "namespaces", "-o", "name").split() if deployed.mark in name]
    deployed.kubectl("delete", *made, "--wait=false")
    wait_until(lambda: not json.loads(deployed.kubectl("-n", "rainbow", "get", "pods", "-o", "json"))["items"], 60)


def write_overlay(deployed: Deployed) -> None:
    """A kustomization that uses the base."""
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(BASE, deployed.directory.resolve())],
        "images": [{"name": "rainbow", "newName": "localhost/rainbow", "newTag": "1"}],
        "patches": [{"patch": yaml.safe_dump(entry)} for entry in patches(deployed.mark)],
    }
    (deployed.directory / "kustomization.yaml").write_text(yaml.safe_dump(overlay))


@contextmanager
def port_forward(deployed: Deployed) -> Iterator[str]:
    """The admin, as its operator reaches it."""
    port = free_port()
    words = [str(deployed.program), "-n", "rainbow", "port-forward", "service/rainbow-admin", f"{port}:{ADMIN_PORT}"]
    with (deployed.directory / "forward.log").open("wb") as log:
        process = subprocess.Popen(
            words, env=deployed.environment, stdout=log, stderr=log, preexec_fn=ended_with_us(signal.SIGKILL)
        )
    try:
        path = deployed.directory / "forward.log"
        wait_until(lambda: "Forwarding from" in path.read_text(), 30, explain=path.read_text)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def test_the_base_runs_jobs_with_its_own_rights_and_is_restarted_by_its_probes(deployed: Deployed) -> None:
    write_overlay(deployed)
    kubectl = deployed.kubectl
    with ExitStack() as stack:
        stack.enter_context(loopback_addresses(API_SERVER, ADMIN, DATABASE))
        server = deployed.cluster.server.removeprefix("https://")
        stack.enter_context(wire_to(server, (API_SERVER, SERVER_PORT)))
        url = stack.enter_context(running_postgresql())
        place, _, name = url.partition("@")[2].partition("/")
        database = stack.enter_context(wire_to(place, (DATABASE, DATABASE_PORT)))

        (deployed.directory / "api.token").write_text("a" * 64)
        (deployed.directory / "api.token").chmod(0o600)
        kubectl(
            *("-n", "rainbow", "create", "secret", "generic", "rainbow-admin", "--from-file=token=api.token"),
            f"--from-literal=database=postgresql+psycopg://rainbow@{DATABASE}:{DATABASE_PORT}/{name}",
        )
        assert "StatefulSet" in kubectl("kustomize", ".")
        kubectl("apply", "-k", ".")
        deployed.wait_until_ready("rainbow-admin", 2)

        # The agent waits for its token, which the admin makes.
        assert not deployed.are_ready("rainbow-agent")
        endpoint = stack.enter_context(port_forward(deployed))
        pod = deployed.pods("rainbow-admin")[0]["status"]["podIP"]
        stack.enter_context(wire_to(f"{pod}:{ADMIN_PORT}", (ADMIN, ADMIN_PORT)))
        deployed.ctl(endpoint, "create cluster alpha --clusterResources")
        assert deployed.ctl(endpoint, "get cluster -o name").split() == ["cluster/alpha"]
        deployed.ctl(endpoint, "rotate token alpha --newTokenFile alpha.token")
        kubectl("-n", "rainbow", "create", "secret", "generic", "rainbow-agent", "--from-file=token=alpha.token")
        deployed.wait_until_ready("rainbow-agent")
        deployed.wait_until_ready("rainbow-janitor")
        leases = "-n", "rainbow", "get", "leases", "-o", "name"  # without the janitor's, its jobs are declined
        wait_until(lambda: "rainbow-janitor-alpha" in kubectl(*leases), 60, interval=1.0, explain=deployed.explain)
        assert deployed.restarts("rainbow-admin") == 0

        place = f"{deployed.mark}-flyteexamples-development"
        wait_until(lambda: place in kubectl("get", "namespaces", "-o", "name"), 60, explain=deployed.explain)
        run = f"create execution {PROJECT} --image {IMAGE} --cpu 100m --onLost retry"
        deployed.ctl(endpoint, f"{run} --watch first -- echo hello")
        assert deployed.ctl(endpoint, f"logs first {PROJECT}") == "hello\n"
        assert "rb-" in kubectl("-n", place, "get", "jobs", "-o", "name")
        agent = "--as=system:serviceaccount:rainbow:rainbow-agent"
        for words in (("*", "*"), ("get", "secrets"), ("create", "pods"), ("delete", "namespaces")):
            assert kubectl("auth", "can-i", *words, "-A", agent, refused=True).startswith("no")

        check_readiness(deployed, database)
        deployed.ctl(endpoint, f"{run} second -- sleep 30")
        check_liveness(deployed)
        deployed.ctl(endpoint, f"wait execution second {PROJECT}")
        assert "SUCCEEDED" in deployed.ctl(endpoint, f"get execution second {PROJECT}")
        assert deployed.restarts("rainbow-admin") == 0
        check_upgrade(deployed)


def check_readiness(deployed: Deployed, database: Wire) -> None:
    """While its database is away the admin gets no requests, and is not restarted."""
    database.break_off()
    wait_until(
        lambda: not any(entry["ready"] for pod in deployed.pods("rainbow-admin") for entry in statuses(pod)),
        120,
        interval=1.0,
        explain=deployed.explain,
    )
    database.mend()
    deployed.wait_until_ready("rainbow-admin", 2)


def statuses(pod: dict[str, Any]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = pod["status"]["containerStatuses"]
    return entries


def check_liveness(deployed: Deployed) -> None:
    """An agent that hangs is killed and started again."""
    assert deployed.restarts("rainbow-agent") == 0
    (pid,) = agents()
    os.kill(pid, signal.SIGSTOP)
    os.utime(f"/proc/{pid}/root/tmp/heartbeat", (0, 0))  # as if it had hung for long
    wait_until(lambda: deployed.restarts("rainbow-agent") == 1, 120, interval=1.0, explain=deployed.explain)
    deployed.wait_until_ready("rainbow-agent")


def check_upgrade(deployed: Deployed) -> None:
    """The steps of an upgrade, in their order; the agent is not touched."""
    kubectl = deployed.kubectl
    kubectl("-n", "rainbow", "scale", "deployment", "rainbow-admin", "--replicas", "0")
    pods = "-l", "app.kubernetes.io/name=rainbow-admin"
    kubectl("-n", "rainbow", "wait", "--for=delete", "pod", *pods, "--timeout", "2m")
    manifest = (BASE / "migrate.yaml").read_text().replace("image: rainbow:latest", "image: localhost/rainbow:1")
    (deployed.directory / "migrate.yaml").write_text(manifest)
    kubectl("-n", "rainbow", "delete", "job", "rainbow-migrate", "--ignore-not-found")
    kubectl("-n", "rainbow", "apply", "-f", "migrate.yaml")
    status = "-n", "rainbow", "get", "job", "rainbow-migrate", "-o", "jsonpath={.status.conditions[*].type}"
    wait_until(lambda: "Complete" in kubectl(*status), 120, interval=1.0, explain=deployed.explain)
    kubectl("apply", "-k", ".")
    deployed.wait_until_ready("rainbow-admin", 2)
    assert deployed.are_ready("rainbow-agent")
    assert deployed.restarts("rainbow-agent") == 1
    kubectl("-n", "rainbow", "delete", "job", "rainbow-migrate", "--wait=false")


def agents() -> list[int]:
    """The processes of agents in containers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"/etc/rainbow/agent.yaml" in words and b"run" in words:
                found.append(int(path.parent.name))
    return found
