"""Faults: what is done to a system at random. Each is over when its function returns."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from tests.robustness.histories.systems import LEASE_SECONDS, Cluster, System

#: Longer than it takes until a cluster is lost.
_LONG_SECONDS = 2.5 * LEASE_SECONDS


def _any_seconds(rng: random.Random) -> float:
    """Most silences are short, some are longer than any lease."""
    return rng.choice((rng.uniform(0, 2), rng.uniform(0, LEASE_SECONDS), _LONG_SECONDS))


# Faults of the admin


def kill_admin(system: System, rng: random.Random) -> None:
    """Kill the admin's processes, and start another."""
    system.kill_admin()
    time.sleep(rng.uniform(0, 2))
    system.start_admin()


def kill_main(system: System, rng: random.Random) -> None:
    """Kill the admin's main process only, and start another admin while its workers end."""
    system.kill_admin(with_workers=False)
    system.start_admin()


def kill_worker(system: System, rng: random.Random) -> None:
    """Kill a worker, which the main process replaces."""
    workers = system.admin_processes()[1:]
    if workers:
        with suppress(ProcessLookupError):
            os.kill(rng.choice(workers), signal.SIGKILL)


def stop_admin(system: System, rng: random.Random) -> None:
    """Stop the admin as an operator does, and start another."""
    system.admin.stop()
    system.start_admin()


ADMIN_FAULTS = (kill_admin, kill_main, kill_worker, stop_admin)

# Faults of a cluster


def kill_agent(cluster: Cluster, rng: random.Random) -> None:
    """Kill the agent, and start it again."""
    cluster.kill()
    time.sleep(rng.uniform(0, 3))
    cluster.start()


def stop_agent(cluster: Cluster, rng: random.Random) -> None:
    """Stop the agent as an operator does, and start it again."""
    cluster.signal(signal.SIGTERM)
    cluster.site.agents[-1].wait(timeout=60)
    cluster.start()


def delay(cluster: Cluster, rng: random.Random) -> None:
    """Let syncs take up to seconds, and overtake each other."""
    _behave(cluster, "delay", rng.uniform(1, 4))


def duplicate(cluster: Cluster, rng: random.Random) -> None:
    """Let every sync arrive twice."""
    _behave(cluster, "duplicate", rng.uniform(1, 4))


def replay(cluster: Cluster, rng: random.Random) -> None:
    """Let syncs arrive again after newer ones."""
    _behave(cluster, "replay", rng.uniform(1, 4))


def lose(cluster: Cluster, rng: random.Random) -> None:
    """Lose half of the answers."""
    _behave(cluster, "lose", rng.uniform(1, 4))


def _behave(cluster: Cluster, manner: str, seconds: float) -> None:
    cluster.proxy.manner = manner
    time.sleep(seconds)
    cluster.proxy.manner = "pass"


CLUSTER_FAULTS = (kill_agent, stop_agent, delay, duplicate, replay, lose)


@contextmanager
def under_faults(
    system: System,
    seed: str,
    *,
    admin_faults: Sequence[Callable[[System, random.Random], None]] = ADMIN_FAULTS,
    cluster_faults: Sequence[Callable[[Cluster, random.Random], None]] = CLUSTER_FAULTS,
) -> Iterator[None]:
    """Let faults of the admin and of each cluster happen one after the other, until the context is left."""
    is_over = threading.Event()
    failures: list[BaseException] = []

    def repeat(act: Callable[[random.Random], tuple[str, Callable[[], None]]], target: str) -> None:
        rng = random.Random(f"{seed} {target}")
        try:
            while not is_over.wait(rng.uniform(0.5, 3)):
                name, fault = act(rng)
                with system.recorder.fault(name, target):
                    fault()
        except BaseException as error:
            failures.append(error)

    def on_admin(rng: random.Random) -> tuple[str, Callable[[], None]]:
        fault = rng.choice(admin_faults)
        return fault.__name__, lambda: fault(system, rng)

    def on_cluster(cluster: Cluster) -> Callable[[random.Random], tuple[str, Callable[[], None]]]:
        def choose(rng: random.Random) -> tuple[str, Callable[[], None]]:
            fault = rng.choice(cluster_faults)
            return fault.__name__, lambda: fault(cluster, rng)

        return choose

    threads = [threading.Thread(target=repeat, args=(on_admin, "admin"))]
    threads += [
        threading.Thread(target=repeat, args=(on_cluster(cluster), cluster.name)) for cluster in system.clusters
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
