"""What commands print of clusters that have no definition, or an empty one."""

from __future__ import annotations

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
