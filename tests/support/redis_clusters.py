"""A real cluster of Redis on loopback: three primaries, and a replica of the one that keeps some keys."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.ports import free_port
from tests.support.redis import redis_server
from tests.support.servers import ended_with_us, owned_directory
from tests.support.waiting import wait_until

_SLOTS, _PRIMARIES = 16384, 3


class Node:
    """One server of a cluster."""

    def __init__(self, directory: Path) -> None:
        from redis import Redis

        program = redis_server()
        assert program is not None
        self.port, self.bus_port = free_port(), free_port()
        options = {
            "bind": "127.0.0.1",
            "port": self.port,
            "cluster-port": self.bus_port,
            "dir": directory,
            "save": "",
            "cluster-enabled": "yes",
            "cluster-config-file": f"nodes-{self.port}.conf",
            "cluster-node-timeout": 2000,
        }
        arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
        with (directory / f"log-{self.port}").open("ab") as log:
            self.process = subprocess.Popen([program, *arguments], stdout=log, preexec_fn=ended_with_us(signal.SIGKILL))
        self.client = Redis(port=self.port, decode_responses=True)
        wait_until(self._is_ready, interval=0.02)

    def _is_ready(self) -> bool:
        from redis import RedisError

        with suppress(RedisError):
            return bool(self.client.ping())
        return False

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def id(self) -> str:
        return str(self.ask("MYID"))

    def ask(self, *words: object) -> Any:
        """The answer to a command about the cluster."""
        execute: Callable[..., Any] = self.client.execute_command
        return execute("CLUSTER", *words)

    def says(self, text: str) -> bool:
        """Whether a text is in what it knows of the cluster and of its own role."""
        execute: Callable[..., Any] = self.client.execute_command
        info = {**execute("CLUSTER INFO"), **self.client.info("replication")}
        return text in [f"{name}:{value}" for name, value in info.items()]

    def end(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait(timeout=60)


class RunningCluster:
    """The nodes, of which the last one is the replica."""

    def __init__(self, nodes: list[Node], primary: Node) -> None:
        self.nodes = nodes
        self._primary, self._replica = primary, nodes[-1]

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(node.address for node in self.nodes[:_PRIMARIES])

    def fail_over(self) -> None:
        """Have the replica take the place of its primary, which is killed then."""
        self._replica.ask("FAILOVER")
        wait_until(lambda: self._replica.says("role:master"))
        self._primary.end()
        wait_until(lambda: self._replica.says("cluster_state:ok"))


@contextmanager
def running_cluster(tag: str) -> Iterator[RunningCluster]:
    """A cluster with a replica of the primary that keeps the keys of a hash tag."""
    assert shutil.which("redis-server") or shutil.which("valkey-server")
    with owned_directory("rainbow-redis-cluster") as directory, ExitStack() as stack:
        nodes = []
        for _ in range(_PRIMARIES + 1):
            node = Node(directory)
            stack.callback(node.end)
            nodes.append(node)
        primaries, replica = nodes[:_PRIMARIES], nodes[-1]
        share = -(-_SLOTS // _PRIMARIES)
        for number, node in enumerate(primaries):
            node.ask("ADDSLOTSRANGE", number * share, min((number + 1) * share, _SLOTS) - 1)
        for node in nodes[1:]:
            node.ask("MEET", "127.0.0.1", nodes[0].port, nodes[0].bus_port)
        wait_until(lambda: all(node.says("cluster_state:ok") for node in nodes))
        wait_until(lambda: all(node.says(f"cluster_known_nodes:{len(nodes)}") for node in nodes))
        primary = primaries[int(nodes[0].ask("KEYSLOT", f"{{{tag}}}")) // share]
        replica.ask("REPLICATE", primary.id)
        wait_until(lambda: replica.says("master_link_status:up"))
        yield RunningCluster(nodes, primary)
