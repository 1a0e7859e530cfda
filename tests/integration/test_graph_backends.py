"""A graph backend of another package, chosen by configuration: placement asks nothing past it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.configuration import load_settings
from admin.core.problems import Invalid
from admin.services.context import Context
from admin.testing import admin_app
from tests.support.apps import context_of
from tests.support.descriptions import describe, pooled
from tests.support.placing import API, create, created, explanation, ok, pool, put_pool, refused, report
from tests.support.trying_backend import TryingBackend


def install(directory: Path, name: str, target: str) -> None:
    """Offer a backend as an installed package does."""
    package = directory / f"{name}-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[rainbow.graph_backends]\n{name} = {target}\n")


@pytest.fixture(params=["memory", "trying"])
def api(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskClient]:
    install(tmp_path, "trying", "tests.support.trying_backend:TryingBackend")
    monkeypatch.syspath_prepend(str(tmp_path))
    limits = {"limits": {"cpu": "64", "memory": "1Ti"}}
    with admin_app({"placement": {"graphBackend": request.param}, "task_resources": limits}) as app:
        context: Context = context_of(app)
        assert isinstance(context.machines._backend, TryingBackend) == (request.param == "trying")
        yield app.test_client()


def job(cpu: int, **resources: Any) -> dict[str, Any]:
    return {"job": {"command": ["true"], "resources": {**resources, "requests": {"cpu": str(cpu), "memory": "1Mi"}}}}


def described(api: FlaskClient, name: str, **nodes: Any) -> None:
    """Two nodes of two cores, with what is free of each."""
    describe(api, name, pooled(2, 2))
    report(api, name, capacity={"cpu": "4"}, free={"cpu": "4"}, nodes=nodes)


def test_what_fits_the_machine_and_what_fits_now_is_asked_of_the_backend(api: FlaskClient) -> None:
    described(api, "first", n1={"cpu": "1"}, n2={"cpu": "1"})
    described(api, "second")
    put_pool(api, "p", ["first", "second"], strategy="spill")
    answer = refused(create(api, "large", **job(3), **pool("p")), 400, "no_cluster_large_enough")
    assert "cores: needs 3 on one node, largest node has 2" in answer["message"]
    assert created(api, "a", **job(2), **pool("p"))["cluster"] == "second"
    failed = next(entry for entry in explanation(api, "a")["candidates"] if entry["cluster"] == "first")
    assert "is full (" in failed["why_not"]
    placed = [created(api, f"b{number}", **job(1), **pool("p"))["cluster"] for number in range(4)]
    assert placed == ["first", "first", "second", "second"]
    waiting = created(api, "c", **job(1), **pool("p"))
    assert waiting["closure"]["reason"]["code"] == "CLUSTERS_FULL"
    assert ok(api.get(f"{API}/clusters/first/description/tree"))


def test_a_backend_that_cannot_be_loaded_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "broken", "no_such_module:Backend")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, reason in (("broken", "Install it, or choose memory."), ("brokn", "Did you mean 'broken'")):
        with pytest.raises(Invalid, match=reason):
            load_settings(None, {}, {"placement": {"graphBackend": name}})
