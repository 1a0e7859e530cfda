"""What commands print of clusters: without a definition, with an empty one, and with executions that wait for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from admin.testing import running_admin
from ctl.main import run


def test_a_cluster_without_values_and_one_without_a_definition(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rainbowctl(line: str) -> str:
        capsys.readouterr()
        assert run(line.split()) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    file = tmp_path / "fleet.yaml"
    file.write_text("kind: cluster\nname: oak\n---\nkind: pool\nname: trees\nmembers: {birch: 1}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        rainbowctl(f"apply -f {file}")
        rainbowctl("drain birch --deadline 0s")
        shown = rainbowctl("history --cluster birch")
        assert "draining, its deadline passed " in shown
        assert "ended what" not in shown
        rainbowctl("delete cluster oak")
        shown = rainbowctl("history")
        for action in ("create", "delete"):
            assert f"{action} cluster oak " in shown
            assert f"{action} cluster oak:" not in shown
        assert "defined by    nothing: only a pool or label names it" in rainbowctl("get cluster birch")


def test_a_cordoned_cluster_shows_what_waits_for_it_without_a_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rainbowctl(line: str) -> str:
        capsys.readouterr()
        assert run(line.split()) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        rainbowctl("create cluster oak")
        rainbowctl("cordon oak")
        assert "runs          nothing, and nothing waits\n" in rainbowctl("get cluster oak")
        for name in ("first", "second"):
            rainbowctl(f"create execution {name} -p flytesnacks -d development --cluster oak -- true")
        shown = rainbowctl("get cluster oak")
        assert "waits         0, and 2 without a cluster, whose requests name it\n" in shown
        assert [line.split()[:3] for line in shown.splitlines()[-2:]] == [
            [f"flytesnacks/development/{name}", "QUEUED", "(CLUSTERS_CORDONED)"] for name in ("first", "second")
        ]
        waiting = json.loads(rainbowctl("get cluster oak -o json"))["waiting_for_it"]
        assert [execution["id"]["name"] for execution in waiting] == ["first", "second"]
        rainbowctl("uncordon oak")
        rainbowctl("wait execution first -p flytesnacks -d development --for=cluster=oak --timeout 30s")
        assert json.loads(rainbowctl("get cluster oak -o json"))["waiting_for_it"] == []
