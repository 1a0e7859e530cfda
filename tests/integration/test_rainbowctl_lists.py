"""Every list of rainbowctl uses the flags that choose among its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from admin.testing import running_admin
from ctl.client.kinds import built_in
from ctl.main import run
from tests.support.lists import LISTS

HERE = "-p flytesnacks -d development"
KINDS = {f"get {kind.noun}" for kind in built_in()}
#: What some of them need.
ARGUMENTS = {
    **dict.fromkeys(KINDS, "-A"),
    **dict.fromkeys(("get execution-event", "get output"), f"some {HERE}"),
    **dict.fromkeys(("get workflow", "get task", "get launchplan"), HERE),
    **dict.fromkeys(("get cluster-event", "get token"), "local"),
}


def test_every_list_refuses_a_field_that_it_does_not_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        assert run(f"create execution some {HERE} -q -- true".split()) == 0
        for path in LISTS:
            for flag, text in (("--filter.sortBy", "nosuch"), ("--filter.fieldSelector", "nosuch=1")):
                capsys.readouterr()
                assert run([*path.split(), *ARGUMENTS.get(path, "").split(), flag, text]) == 2, path
                assert f"{flag}: there is no field 'nosuch': choose " in capsys.readouterr().err, path


def test_flytes_names_of_fields_are_known_wherever_there_is_such_a_field(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    names = {
        "get launchplan": "launch_plan.name launch_plan.state workflow.name workflow.version project.name",
        "get workflow": "workflow.name workflow.version project.identifier",
        "get execution": "workflow.name launch_plan.name project.name",
        "get task-resource-attribute": "workflow.name launch_plan.name project.name",
        "get warning": "workflow.name launch_plan.name project.name",
        "get project": "project.name project.identifier",
    }
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        for path, fields in names.items():
            arguments = [*path.split(), *ARGUMENTS.get(path, "").split()]
            for name in fields.split():
                assert run([*arguments, "--filter.fieldSelector", f"{name}=a"]) == 0, (path, name)
