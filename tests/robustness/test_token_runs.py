"""Executions that need tokens, on a real agent: never more run than there are tokens, and all of them finish."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from admin.store.token_backends.redis import TAG
from admin.store.token_backends.redis_client import RedisSettings, connect
from tests.conftest import Scale
from tests.support.admins import RunningAdmin, running_admin
from tests.support.agent_processes import DOMAIN, PROJECT, Site, running_site, write_admin_configuration
from tests.support.placing import LEVELS
from tests.support.redis import RunningRedis
from tests.support.token_backends import open_redis
from tests.support.waiting import wait_until

TOKENS = 10
#: Notes how many of its kind run beside it, by files that all of them see.
RUN = """
touch {directory}/running/$1
ls {directory}/running | wc -l >> {directory}/seen
echo "$1 $RAINBOW_TOKEN_NUMBER" >> {directory}/order
sleep 0.1
rm {directory}/running/$1
"""


def test_no_more_run_than_there_are_tokens_though_agents_are_killed(
    database_url: str, tmp_path: Path, scale: Scale
) -> None:
    check_runs(tmp_path, scale(40, full=300), database_url, {})


def test_no_more_run_than_there_are_tokens_of_redis(redis: RunningRedis, tmp_path: Path, scale: Scale) -> None:
    open_redis(connect(RedisSettings(host_paths=(redis.address,))), TAG)  # so that it grants from the start
    manager = {"type": "redis", "redis": {"hostPaths": [redis.address], "longestLeaseSeconds": 60}}
    check_runs(tmp_path, scale(30, full=300), f"sqlite:///{tmp_path}/rainbow.db", manager)


@pytest.mark.parametrize("kind", ["database", "redis"])
def test_projects_get_tokens_by_their_shares_on_all_clusters(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """One project asks first for all it wants; the others get theirs meanwhile, half as many for half the weight."""
    (tmp_path / "running").mkdir()
    script, manager = RUN.format(directory=tmp_path), dict[str, Any](type=kind)
    if kind == "redis":
        redis: RunningRedis = request.getfixturevalue("redis")
        open_redis(connect(RedisSettings(host_paths=(redis.address,))), TAG)
        manager["redis"] = {"hostPaths": [redis.address], "longestLeaseSeconds": 60}
    path = write_admin_configuration(tmp_path, leaseSeconds=60)
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "resourcemanager": manager}))
    wanted = {"flytesnacks": 12, "flyteexamples": 6, "maps": 6}
    with (
        running_admin(tmp_path, "--config", str(path)) as admin,
        running_site(admin, tmp_path / "one", slots=20) as one,
        running_site(admin, tmp_path / "two", slots=20) as two,
    ):
        added = requests.post(f"{admin.url}/api/v1/projects", json={"project": {"id": "maps"}}, timeout=60)
        assert added.status_code == 200, added.text
        put(admin, "token_pools/shared", {"token_pool": {"name": "shared", "capacity": 4}})
        weight = {"matching_attributes": {"token_pool_quota": {"weight": 2.0}}}
        put(admin, LEVELS["project"].format(project="flytesnacks"), {"attributes": weight})
        for project, number in wanted.items():
            for run in range(number):
                job = {"command": ["sh", "-c", script, "sh", f"{project}-{run:02}"]}
                site = one if run % 2 else two
                create_one(site, f"{project}-{run:02}", job, "shared", project=project)
        one.start()
        two.start()
        count = sum(wanted.values())
        wait_until(lambda: finished(one) == count, 600, explain=lambda: one.log[-4000:] + two.log[-4000:])
    seen = [int(line) for line in (tmp_path / "seen").read_text().split()]
    assert (max(seen) <= 4, len(seen)) == (True, count)
    order = [line.split() for line in (tmp_path / "order").read_text().splitlines()]
    granted = [name.partition("-")[0] for name, _ in sorted(order, key=lambda entry: int(entry[1]))]
    # By age alone the first twelve would all be of one project. Each may be ahead by what runs at once.
    first = Counter(granted[:16])
    assert first["flytesnacks"] in range(6, 11), granted
    assert min(first["flyteexamples"], first["maps"]) >= 2, granted


def check_runs(tmp_path: Path, count: int, database_url: str, manager: dict[str, Any]) -> None:
    """Executions run on an agent that is killed and started again within the lease."""
    (tmp_path / "running").mkdir()
    script = RUN.format(directory=tmp_path)
    path = write_admin_configuration(tmp_path, leaseSeconds=60)
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "resourcemanager": manager}))
    configuration = str(path)
    with (
        running_admin(tmp_path, "--config", configuration, database=database_url, is_cold=True) as admin,
        running_site(admin, tmp_path, slots=40) as site,
    ):
        put(admin, "token_pools/hive", {"token_pool": {"name": "hive", "capacity": TOKENS}})
        create(site, script, count)
        site.start()
        wait_until(lambda: len(started(tmp_path)) > count // 4, 300)
        site.agents[-1].kill()
        site.agents[-1].wait(timeout=60)
        site.start()
        wait_until(lambda: finished(site) == count, 600, explain=lambda: site.log[-4000:])
        seen = [int(line) for line in (tmp_path / "seen").read_text().split()]
        assert max(seen) <= TOKENS
        assert len(seen) == count
        # Redis is told after the ends are committed; their leases would have lasted longer.
        wait_until(lambda: usage(site) == (0, 0), 20)
    order = [line.split() for line in (tmp_path / "order").read_text().splitlines()]
    numbers = [int(number) for _, number in order]
    assert len(set(numbers)) == count  # each grant has a number of its own
    by_grant = [name for name, _ in sorted(order, key=lambda entry: int(entry[1]))]
    urgent = [name for name in by_grant if name.startswith("urgent")]
    usual = [name for name in by_grant if name.startswith("run")]
    assert by_grant[: len(urgent)] == urgent  # by priority
    places = {name: place for place, name in enumerate(sorted(usual))}
    # By age, but for those whose leases the killed agent had not confirmed.
    assert all(abs(place - places[name]) <= TOKENS for place, name in enumerate(usual))


def create(site: Site, script: str, count: int) -> None:
    """Executions that need a token each, the last tenth of them urgent."""
    for number in range(count):
        name = f"{'urgent' if number >= count * 9 // 10 else 'run'}-{number:04}"
        more: dict[str, Any] = {"quality_of_service": {"tier": "HIGH"}} if name.startswith("urgent") else {}
        create_one(site, name, {"command": ["sh", "-c", script, "sh", name]}, "hive", **more)


def create_one(site: Site, name: str, job: dict[str, Any], pool: str, project: str = PROJECT, **more: Any) -> None:
    """An execution at a site that needs a token."""
    spec = {"cluster": site.cluster, "job": job, "token_pools": {pool: 1}, **more}
    entry = {"project": project, "domain": DOMAIN, "name": name, "spec": spec}
    answer = requests.post(f"{site.admin.url}/api/v1/executions", json=entry, timeout=60)
    assert answer.status_code == 200, answer.text


def put(admin: RunningAdmin, path: str, body: dict[str, Any]) -> None:
    answer = requests.put(f"{admin.url}/api/v1/{path}", json=body, timeout=60)
    assert answer.status_code == 200, answer.text


def usage(site: Site) -> tuple[int, int]:
    """How many tokens are held, and how many executions wait for some."""
    pool = requests.get(f"{site.admin.url}/api/v1/token_pools/hive", timeout=60).json()
    return pool["used"], pool["waiting"]


def started(directory: Path) -> list[str]:
    order = directory / "order"
    return order.read_text().splitlines() if order.exists() else []


def finished(site: Site) -> int:
    path = f"{site.admin.url}/api/v1/execution_counts?by=phase"
    counts = requests.get(path, timeout=60).json()["counts"]
    return sum(entry["count"] for entry in counts if "SUCCEEDED" in str(entry))
