"""Faults: what is done to a system at random. Each function returns when its fault is over."""

from __future__ import annotations

import itertools
import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.robustness.histories.silences import LEASE_SECONDS, LOST_SECONDS
from tests.robustness.histories.systems import Cluster, System

_FAR_SECONDS = 400 * 86400
#: Enough for a lease, which is renewed on a full disk as well, and for nothing else that an agent writes.
_FULL_BYTES = 100


def _any_seconds(rng: random.Random) -> float:
    """Of a silence: half of them last until the cluster is lost."""
    return rng.choice((rng.uniform(1, LOST_SECONDS / 2), LOST_SECONDS + 3))


# Faults of the admin


def kill_admin(system: System, rng: random.Random) -> None:
    """Kill the admin's processes, and start another."""
    system.kill_admin()
    time.sleep(rng.uniform(0, 2))
    system.start_admin()


def take_admin_away(system: System, rng: random.Random) -> None:
    """Have no admin for longer than any lease."""
    system.kill_admin()
    time.sleep(LOST_SECONDS + 3)
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


def pause_admin(system: System, rng: random.Random) -> None:
    """Stop the admin's processes, as a machine that is suspended does, and continue them."""
    pids = system.admin_processes()
    _signal_all(pids, signal.SIGSTOP)
    time.sleep(_any_seconds(rng))
    _signal_all(pids, signal.SIGCONT)


def fill_admin_disk(system: System, rng: random.Random) -> None:
    """Let every write of the admin to a file fail."""
    _limit_files(system.admin_processes(), 0)
    time.sleep(rng.uniform(0.5, 2))
    _limit_files(system.admin_processes(), resource.RLIM_INFINITY)


def step_admin_clock(system: System, rng: random.Random) -> None:
    """Set the admin's clock forward or back, and right again."""
    _step(system.admin_clock.set, rng)


def leap_admin_clock(system: System, rng: random.Random) -> None:
    """Set the admin's clock years ahead until everything is judged by it, and right again."""
    system.admin_clock.set(_FAR_SECONDS)
    time.sleep(LEASE_SECONDS + 3)
    system.admin_clock.set(0)


def restore_backup(system: System, rng: random.Random) -> None:
    """Put an earlier state of the database back."""
    backup = system.back_up()
    time.sleep(rng.uniform(1, 4))
    system.restore(*backup)


# Faults of a cluster


def kill_agent(cluster: Cluster, rng: random.Random) -> None:
    """Kill the agent, and start it again."""
    cluster.kill()
    time.sleep(rng.uniform(0, 2))
    cluster.start()


def leave_agent_dead(cluster: Cluster, rng: random.Random) -> None:
    """Kill the agent, and start it again when the cluster is lost and others have its work; its jobs go on."""
    cluster.kill()
    time.sleep(LOST_SECONDS + 5)
    cluster.start()


def stop_agent(cluster: Cluster, rng: random.Random) -> None:
    """Stop the agent as an operator does, and start it again."""
    cluster.signal(signal.SIGTERM)
    cluster.agent.wait(timeout=60)
    cluster.start()


def pause_agent(cluster: Cluster, rng: random.Random) -> None:
    """Stop the agent's process, as a machine that is suspended does, and continue it; its jobs go on."""
    cluster.signal(signal.SIGSTOP)
    time.sleep(_any_seconds(rng))
    cluster.signal(signal.SIGCONT)


def part(cluster: Cluster, rng: random.Random) -> None:
    """Hold every request and answer back."""
    _behave(cluster, "hold", _any_seconds(rng))


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


def start_second_agent(cluster: Cluster, rng: random.Random) -> None:
    """Start another agent with the same token and no state beside the first, and kill it."""
    second = cluster.start_second()
    time.sleep(rng.uniform(2, 5))
    second.kill()
    second.wait()
    cluster.start()


def fill_agent_disk(cluster: Cluster, rng: random.Random) -> None:
    """Let the agent be unable to store anything new."""
    _limit_files([cluster.agent.pid], _FULL_BYTES)
    time.sleep(rng.uniform(1, 4))
    _limit_files([cluster.agent.pid], resource.RLIM_INFINITY)


def kill_supervisor(cluster: Cluster, rng: random.Random) -> None:
    """Kill one of the two processes that watch a job."""
    jobs = cluster.running_jobs()
    if not jobs:
        return
    name, watchers = rng.choice(jobs)
    with cluster.recorder.fault("killed_supervisor", name), suppress(ProcessLookupError):
        os.kill(rng.choice(watchers), signal.SIGKILL)


def step_agent_clock(cluster: Cluster, rng: random.Random) -> None:
    """Set the agent's clock forward or back, and right again."""
    _step(cluster.clock.set, rng)


def _behave(cluster: Cluster, manner: str, seconds: float) -> None:
    cluster.proxy.manner = manner
    time.sleep(seconds)
    cluster.proxy.manner = "pass"


def _step(set_clock: Callable[[int], None], rng: random.Random) -> None:
    set_clock(rng.choice((-7200, -30, 30, 60, 7200, _FAR_SECONDS)))
    time.sleep(rng.uniform(1, 5))
    set_clock(0)


def _signal_all(pids: Collection[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _limit_files(pids: Collection[int], most_bytes: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))


CRASHES = (kill_admin, kill_main, kill_worker, stop_admin, kill_agent, stop_agent)
NETWORK = (delay, duplicate, replay, lose)
SILENT_AGENTS = (part, pause_agent, leave_agent_dead)
SILENT_ADMINS = (pause_admin, take_admin_away)
CLOCKS = (step_admin_clock, leap_admin_clock, step_agent_clock)
DISK = (fill_admin_disk, fill_agent_disk)
SUPERVISOR = (kill_supervisor,)
SECOND_AGENT = (start_second_agent,)
RESTORE = (restore_backup,)
ALL = (*CRASHES, *NETWORK, *SILENT_AGENTS, *SILENT_ADMINS, *CLOCKS, *DISK, *SUPERVISOR, *SECOND_AGENT, *RESTORE)

Fault = Callable[[Any, random.Random], None]  #: of a system, or of a cluster


@contextmanager
def under_faults(system: System, seed: str, faults: Collection[Fault]) -> Iterator[None]:
    """Let faults of the admin and of each cluster happen one after the other, until the context is left.

    They are drawn like cards: each happens once before any happens again. The last cluster is spared.
    The admin, without which nothing happens, is left alone for longer.
    """
    is_over = threading.Event()
    failures: list[BaseException] = []

    def repeat(name: str, target: System | Cluster, deck: list[Fault], most_seconds: float) -> None:
        rng = random.Random(f"{seed} {name}")
        rng.shuffle(deck)
        is_over.wait(rng.uniform(1, 3))  # until there is work
        try:
            for fault in itertools.cycle(deck):
                if is_over.wait(rng.uniform(0.3, most_seconds)):
                    return
                with system.recorder.fault(fault.__name__, name):
                    fault(target, rng)
        except BaseException as error:
            failures.append(error)

    of_admin = [fault for fault in faults if "system" in fault.__annotations__]
    of_clusters = [fault for fault in faults if "cluster" in fault.__annotations__]
    threads = [threading.Thread(target=repeat, args=("admin", system, of_admin, 6))]
    for cluster in system.clusters[:-1]:  # one can always take what the others have lost
        threads.append(threading.Thread(target=repeat, args=(cluster.name, cluster, list(of_clusters), 2)))
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
