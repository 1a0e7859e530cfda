"""One Flux instance for all tests here; they are skipped where there is no Flux."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.engines.flux import FluxEngine
from tests.support.admins import RunningAdmin
from tests.support.agent_processes import Site, admin_of_agents, running_site
from tests.support.flux import FluxInstance, is_installed, running_flux

MakeEngine = Callable[..., FluxEngine]


@pytest.fixture(scope="session")
def instance() -> Iterator[FluxInstance]:
    if not is_installed():
        pytest.skip("there is no flux on PATH: install flux-core, and run make test-flux")
    with running_flux() as instance:
        yield instance


@pytest.fixture
def make_engine(instance: FluxInstance, tmp_path: Path) -> Iterator[MakeEngine]:
    """Makes engines of one directory, which leave no job behind."""
    engines: list[FluxEngine] = []

    def make(**options: Any) -> FluxEngine:
        engine = FluxEngine({"uri": instance.uri, "graceSeconds": 1, **options}, tmp_path)
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.close()
    if instance.process is not None:
        instance.run("cancel", "--all", "--quiet")


@pytest.fixture
def engine(make_engine: MakeEngine) -> FluxEngine:
    return make_engine()


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    with admin_of_agents(tmp_path_factory.mktemp("admin"), leaseSeconds=30, waitSeconds=5) as admin:
        yield admin


@pytest.fixture
def site(admin: RunningAdmin, instance: FluxInstance, tmp_path: Path) -> Iterator[Site]:
    """A cluster whose agent runs jobs in the instance."""
    with running_site(admin, tmp_path, engine="flux", engine_options={"uri": instance.uri}) as site:
        yield site
    instance.run("cancel", "--all", "--quiet")
