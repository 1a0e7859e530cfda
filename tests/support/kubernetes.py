"""A real Kubernetes cluster of one node on loopback, for the time of the tests.

etcd, the API server, the controller manager and the scheduler are processes of the tests. The node, containerd and a
kubelet, needs root: it runs in mount and process namespaces of its own, so that its end takes every container and mount
along.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.oci_images import Image, busybox_layer, write_archive
from tests.support.ports import free_port
from tests.support.servers import ended_with_us, owned_directory
from tests.support.waiting import wait_until

_SCRIPTS = Path(__file__).parent.parent / "kubernetes"
_CGROUPS = Path("/sys/fs/cgroup")
#: What jobs of the tests run in.
IMAGE = "localhost/busybox:1"
_PAUSE = "localhost/pause:1"
NODE = "localhost"
#: Longer than a start takes on a machine that is busy with other work.
_START_SECONDS = 240.0
#: Users by their tokens, which the API server reads from a file.
ADMINISTRATOR, STRANGER = "administrator", "stranger"
_USERS = f"""\
{ADMINISTRATOR},administrator,1,system:masters
{STRANGER},stranger,2
"""

_CONTAINERD = """\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{programs}/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""

_NETWORK = """\
{"cniVersion": "0.4.0", "name": "rainbow", "plugins": [{"type": "ptp", "ipMasq": false,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/20"}]], "routes": [{"dst": "10.96.0.0/16"}],
 "dataDir": "/run/cni"}}]}
"""

# The state directories of the node are in memory, and only the processes below see them.
_NODE_SCRIPT = """\
set -eu
mount --make-rprivate /
for directory in /var/lib/containerd /var/lib/kubelet /run /var/log /etc/cni /opt; do
  mkdir -p $directory
  mount -t tmpfs -o mode=755 tmpfs $directory
done
mkdir -p /etc/cni/net.d /run/lock /var/log/pods /var/log/containers
cp "$STATE/network.conflist" /etc/cni/net.d/rainbow.conflist
containerd --config "$STATE/containerd.toml" >"$STATE/containerd.log" 2>&1 &
until ctr --address /run/containerd/containerd.sock version >/dev/null 2>&1; do sleep 0.1; done
ctr --address /run/containerd/containerd.sock --namespace k8s.io images import "$STATE/images.tar" >/dev/null
exec "$KUBERNETES" kubelet --config "$STATE/kubelet.yaml" --kubeconfig "$STATE/kubeconfig" \
  --hostname-override localhost --root-dir /var/lib/kubelet --v 2 >"$STATE/kubelet.log" 2>&1
"""


def server_binary() -> Path | None:
    """The binary that `make test-kubernetes` builds; None where it was not built."""
    return _found("build-server")


def node_programs() -> Path | None:
    """The programs of a node that `make test-kubernetes` fetches; None where they were not fetched."""
    return _found("fetch-node")


def kubectl_program() -> Path | None:
    """The kubectl of this machine, or the one that `make test-kubernetes` builds; None where there is neither."""
    return _found("build-kubectl")


def _found(script: str) -> Path | None:
    result = subprocess.run([_SCRIPTS / script, "find"], capture_output=True, text=True, check=False)
    return Path(result.stdout.strip()) if result.returncode == 0 else None


def why_no_node() -> str:
    """Why this machine cannot have a node; empty if it can."""
    if os.geteuid() != 0:
        return "a node of Kubernetes needs root"
    if node_programs() is None:
        return "the programs of a node are not fetched: run tests/kubernetes/fetch-node"
    return ""


@dataclass
class KubernetesCluster:
    """A cluster whose API server can be ended and started again."""

    binary: Path
    directory: Path
    port: int = field(default_factory=free_port)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        """Of a user who may do everything."""
        return self.directory / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """A line for each answered request."""
        return self.directory / "audit.log"

    def write_kubeconfig(self, path: Path, token: str) -> Path:
        """Write a kubeconfig of the user with that token."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [
                {"name": "test", "cluster": {"server": self.server, "certificate-authority": self._authority}}
            ],
            "users": [{"name": "test", "user": {"token": token}}],
        }
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return path

    @property
    def _authority(self) -> str:
        return str(self.directory / "certificates" / "apiserver.crt")

    def start(self) -> None:
        """Start the control plane, and wait until namespaces have their service account."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        _write_private(
            self.directory / "accounts.key",
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )
        _write_private(self.directory / "users.csv", _USERS.encode())
        audit = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
        policy = {**audit, "rules": [{"level": "Metadata", "userGroups": ["system:masters"]}, {"level": "None"}]}
        (self.directory / "audit.yaml").write_text(yaml.safe_dump(policy), encoding="utf-8")
        etcd, peers = free_port(), free_port()
        self._etcd = f"http://127.0.0.1:{etcd}"
        self._start(
            *("etcd", "--data-dir", str(self.directory / "etcd"), "--unsafe-no-fsync", "--log-level", "error"),
            *("--listen-client-urls", self._etcd, "--advertise-client-urls", self._etcd),
            *("--listen-peer-urls", f"http://127.0.0.1:{peers}", "--initial-advertise-peer-urls"),
            *(f"http://127.0.0.1:{peers}", "--initial-cluster", f"default=http://127.0.0.1:{peers}"),
        )
        self.start_api_server()
        self.write_kubeconfig(self.kubeconfig, ADMINISTRATOR)
        limits = ("--kube-api-qps", "500", "--kube-api-burst", "1000", "--leader-elect=false", "--secure-port=0")
        self._start(
            *("kube-controller-manager", "--kubeconfig", str(self.kubeconfig), *limits),
            *("--service-account-private-key-file", str(self.directory / "accounts.key")),
            *("--root-ca-file", self._authority, "--concurrent-job-syncs", "20"),
        )
        self._start("kube-scheduler", "--kubeconfig", str(self.kubeconfig), *limits)
        wait_until(
            lambda: self.get("/api/v1/namespaces/default/serviceaccounts/default") == 200,
            seconds=_START_SECONDS,
            explain=self.explain,
        )

    def start_api_server(self) -> None:
        """Start the API server, and wait until it is ready."""
        self._start(
            *("kube-apiserver", "--etcd-servers", self._etcd, "--secure-port", str(self.port)),
            *("--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--service-cluster-ip-range"),
            *("10.96.0.0/16", "--cert-dir", str(self.directory / "certificates"), "--authorization-mode", "Node,RBAC"),
            *("--token-auth-file", str(self.directory / "users.csv"), "--service-account-issuer", "https://rainbow"),
            *("--service-account-key-file", str(self.directory / "accounts.key")),
            *("--service-account-signing-key-file", str(self.directory / "accounts.key"), "--allow-privileged"),
            *("--kubelet-preferred-address-types", "Hostname", "--audit-log-path", str(self.audit_log)),
            *("--audit-policy-file", str(self.directory / "audit.yaml"), "--watch-cache=true"),
            *("--max-requests-inflight", "2000", "--endpoint-reconciler-type", "none"),
        )
        wait_until(lambda: self.get("/readyz") == 200, seconds=_START_SECONDS, explain=self.explain)

    def kill_api_server(self) -> None:
        """End the API server at once; jobs and the other components go on."""
        self._kill("kube-apiserver")

    def start_node(self, programs: Path) -> None:
        """Start the node, and wait until it takes pods."""
        layer, environment = busybox_layer(programs / "bin/busybox"), {"PATH": "/bin"}
        commands = {IMAGE: ["sh"], _PAUSE: ["/bin/sleep", "1000000000"]}
        images = (
            Image(name=name, layer=layer, command=words, environment=environment) for name, words in commands.items()
        )
        write_archive(self.directory / "images.tar", images)
        snapshotter = "overlayfs" if "overlay" in Path("/proc/filesystems").read_text() else "native"
        containerd = _CONTAINERD.format(pause=_PAUSE, programs=programs, snapshotter=snapshotter)
        (self.directory / "containerd.toml").write_text(containerd, encoding="utf-8")
        (self.directory / "network.conflist").write_text(_NETWORK, encoding="utf-8")
        (self.directory / "kubelet.yaml").write_text(yaml.safe_dump(self._kubelet()), encoding="utf-8")
        self._make_cgroups()
        path = f"{programs}/usr/bin:{programs}/usr/sbin:{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
        environment = {**os.environ, "PATH": path, "STATE": str(self.directory), "KUBERNETES": str(self.binary)}
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _NODE_SCRIPT]
        self._spawn("node", words, environment)
        wait_until(self._has_node, seconds=_START_SECONDS, explain=self.explain)

    def add_image(self, programs: Path, image: Image) -> None:
        """Give the node one more image."""
        archive = self.directory / "image.tar"
        write_archive(archive, [image])
        (shell,) = (
            Path(f"/proc/{self._processes['node'].pid}/task/{self._processes['node'].pid}/children").read_text().split()
        )
        socket = f"/proc/{shell}/root/run/containerd/containerd.sock"
        words = [
            f"{programs}/usr/bin/ctr",
            "--address",
            socket,
            "--namespace",
            "k8s.io",
            "images",
            "import",
            str(archive),
        ]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, timeout=120)
        archive.unlink()

    def _has_node(self) -> bool:
        text = self.read(f"/api/v1/nodes/{NODE}")
        return '"type":"Ready","status":"True"' in text or ('"status":"True"' in text and "KubeletReady" in text)

    def _kubelet(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
            "port": free_port(),
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup}",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "maxPods": 110,
            "serializeImagePulls": False,
            "kubeAPIQPS": 100,
            "kubeAPIBurst": 200,
            "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
        }

    @property
    def _cgroup(self) -> str:
        return self.directory.name

    def _cgroup_roots(self) -> list[Path]:
        """Where a cgroup of ours is in each hierarchy: one in version 2, one for each controller in version 1."""
        if (_CGROUPS / "cgroup.controllers").exists():
            return [_CGROUPS / self._cgroup]
        return [controller / self._cgroup for controller in _CGROUPS.iterdir() if controller.is_dir()]

    def _make_cgroups(self) -> None:
        for root in self._cgroup_roots():
            root.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                if (root.parent / name).exists() and (root.parent.name == "cpuset"):
                    (root / name).write_text((root.parent / name).read_text())

    def _remove_cgroups(self) -> None:
        def remove() -> bool:
            for root in self._cgroup_roots():
                for directory, _, _ in os.walk(root, topdown=False):
                    with suppress(OSError):
                        Path(directory).rmdir()
            return not any(root.exists() for root in self._cgroup_roots())

        with suppress(AssertionError):
            wait_until(remove, 10)

    def stop(self) -> None:
        """End everything, the node with its containers first."""
        for program in ("node", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"):
            self._kill(program)
        self._remove_cgroups()

    def get(self, path: str) -> int:
        """The status of an answer to the administrator; 0 while there is none."""
        try:
            with self._open(path) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except (OSError, ssl.SSLError):
            return 0

    def read(self, path: str) -> str:
        """The body of an answer to the administrator; empty while there is none."""
        with suppress(OSError), self._open(path) as answer:
            return str(answer.read().decode())
        return ""

    def _open(self, path: str) -> Any:
        context = ssl.create_default_context(cafile=self._authority)
        request = urllib.request.Request(self.server + path, headers={"Authorization": f"Bearer {ADMINISTRATOR}"})
        return urllib.request.urlopen(request, context=context, timeout=5)

    def calls(self, namespace: str) -> Counter[str]:
        """How often clients of the engine have called what, in a namespace or in all of them."""
        counts: Counter[str] = Counter()
        for line in self.audit_log.read_text(encoding="utf-8").splitlines():
            entry: dict[str, Any] = json.loads(line)
            reference = entry.get("objectRef", {})
            if entry["userAgent"].startswith("python-httpx") and reference.get("namespace") in (None, namespace):
                resource = "/".join(filter(None, (reference.get("resource"), reference.get("subresource"))))
                # A watch is complete when it ends, and counts from when it is answered.
                counted = "ResponseStarted" if entry["verb"] == "watch" else "ResponseComplete"
                counts[f"{entry['verb']} {resource}"] += entry["stage"] == counted
        return counts

    def explain(self) -> str:
        """The end of each log, and what has ended."""
        ended = [name for name, process in self._processes.items() if process.poll() is not None]
        tails = [f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in self.directory.glob("*.log")]
        return "\n".join([f"ended: {ended}", *(tail for tail in tails if not tail.startswith("audit"))])

    def _start(self, program: str, *arguments: str) -> None:
        self._spawn(program, [str(self.binary), program, *arguments], dict(os.environ))

    def _spawn(self, name: str, words: list[str], environment: dict[str, str]) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                preexec_fn=ended_with_us(signal.SIGKILL),
                start_new_session=True,
            )

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()


def _write_private(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)


def _remove_old_cgroups() -> None:
    """Remove the cgroups of runs that were killed."""
    for root in [*_CGROUPS.glob("rainbow-kubernetes-*"), *_CGROUPS.glob("*/rainbow-kubernetes-*")]:
        pid = root.name.removeprefix("rainbow-kubernetes-").partition("-")[0]
        if not Path("/proc", pid).exists():
            for directory, _, _ in os.walk(root, topdown=False):
                with suppress(OSError):
                    Path(directory).rmdir()


@contextmanager
def running_kubernetes(binary: Path) -> Iterator[KubernetesCluster]:
    """A cluster without a node."""
    _remove_old_cgroups()
    with ExitStack() as stack:
        directory = stack.enter_context(owned_directory("rainbow-kubernetes"))
        cluster = KubernetesCluster(binary, directory)
        stack.callback(cluster.stop)
        cluster.start()
        yield cluster
