"""What `get access --user` and `get all` print, and that JSON and REST tell the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from admin.testing import running_admin
from ctl.main import run

Command = Callable[..., str]
SECTIONS = {"placement": {"clusterUse": "closed"}, "roles": {"auditor": {"permissions": ["audit.read"]}}}


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """An admin with closed clusters."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "ana")
    with running_admin(SECTIONS) as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        yield url


@pytest.fixture
def rainbowctl(url: str, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command, with the exit status that is expected; answers what it prints."""

    def command(line: str, status: int = 0) -> str:
        capsys.readouterr()
        assert run(line.split()) == status, capsys.readouterr().err
        printed = capsys.readouterr()
        return printed.err if status else printed.out

    return command


def rest(url: str, path: str) -> Any:
    with urlopen(f"{url}/api/v1/{path}") as answer:
        return json.load(answer)


def settle(rainbowctl: Command) -> None:
    for line in (
        "create cluster east",
        "create cluster west",
        "create pool gpu --member east --member west",
        "create group ml --user ada --user otto",
        "create group staff --group ml",
        "create grant viewer --group staff -d production -m looks",
        "create grant editor --user ada -p flytesnacks",
        "create grant submitter --group ml -p flyteexamples -d development",
        "create cluster-group racks --cluster west",
        "create use-grant --clusterGroup racks --user ada",
        "create use-grant --pool gpu --group staff",
        "create use-grant --cluster east -p flytesnacks",
    ):
        rainbowctl(f"{line} -q")


def test_what_a_user_may_do_is_printed_in_the_same_words_everywhere(url: str, rainbowctl: Command) -> None:
    settle(rainbowctl)
    answer = json.loads(rainbowctl("get access --user ada -o json"))
    assert answer == rest(url, "access/held?user=ada")
    text = rainbowctl("get access --user ada")
    assert text.splitlines()[0].startswith("User ada has 3 grants, 2 of them through groups ml, staff.")
    assert max(map(len, text.splitlines())) <= 100
    joined = " ".join(text.split())
    for grant in answer["grants"]:
        assert grant["role"] in joined
        assert f"revision {grant['version']}" in joined
        assert " → ".join(grant.get("through") or []) in joined
        assert f"{grant['role']} gives {', '.join(grant['permissions'])}." in joined
    for use in answer["use_grants"]:
        assert ", ".join(use["clusters"]) in joined
        assert f"revision {use['version']}" in joined
    for word in (
        "'looks'",
        "ml → staff",
        "project flytesnacks",
        "domain production",
        "cluster-group racks",
        "pool gpu",
    ):
        assert word in joined
    names = rainbowctl("get access --user ada -o name").split()
    assert names == [
        *(f"grant/{grant['name']}" for grant in answer["grants"]),
        *(f"use-grant/{use['name']}" for use in answer["use_grants"]),
    ]
    assert "attributes.write" in rainbowctl("get access --user ada -o wide")


def test_the_grants_of_a_user_are_chosen(url: str, rainbowctl: Command) -> None:
    settle(rainbowctl)
    writing = json.loads(rainbowctl("get access --user ada --selector permissions=attributes.write -o json"))
    assert [grant["role"] for grant in writing["grants"]] == ["editor"]
    there = json.loads(rainbowctl("get access --user ada -p flytesnacks -o json"))
    assert there == rest(url, "access/held?user=ada&project=flytesnacks")
    assert [grant["role"] for grant in there["grants"]] == ["editor"]
    group = json.loads(rainbowctl("get access --group ml -o json"))
    assert group == rest(url, "access/held?group=ml")
    assert "User nobody has no grant." in rainbowctl("get access --user nobody")
    assert "If it is a user, write --user ada." in rainbowctl("get access ada", 2)
    assert "one of the two" in rainbowctl("get access --user ada --group ml", 2)
    assert "is empty" in rainbowctl("get access --user=", 2)
    assert "No project is called" in rainbowctl("get access --user ada -p flytesnack", 2)
    assert "there is no level 'domian'" in rainbowctl("get access --selector level=domian", 2)


def test_the_context_plays_no_part_in_the_access_of_a_user(
    url: str, rainbowctl: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(rainbowctl)
    monkeypatch.setenv("RAINBOW_PROJECT", "flytesnacks")
    assert len(json.loads(rainbowctl("get access --user ada -o json"))["grants"]) == 3


def test_what_is_defined_is_printed_in_the_same_words_everywhere(url: str, rainbowctl: Command) -> None:
    settle(rainbowctl)
    listed = json.loads(rainbowctl("get all -o json"))
    assert listed == rest(url, "all_definitions?limit=1000")["definitions"]
    lines = rainbowctl("get all").splitlines()
    assert len(lines) == len(listed) + 1
    for line, row in zip(lines[1:], listed, strict=True):
        who = "configuration" if row["source"] == "configuration" else "anonymous (says ana)"
        assert re.match(
            rf"{row['noun']} +{re.escape(row['name'])} +{row.get('revision', '-')} .*{re.escape(who)}", line
        )
    assert "looks" in rainbowctl("get all --noun grant -o wide")
    assert rainbowctl("get all --noun pools -o name") == "pool/gpu\n"
    assert rainbowctl("get all --noun clusterGroup -o name") == "cluster-group/racks\n"
    assert "role/auditor\n" in rainbowctl("get all -o name")
    assert rainbowctl("get all -p flyteexamples -o name").split() == [
        "project/flyteexamples",
        "grant/submitter:group:ml:flyteexamples:development",
    ]
    recent = json.loads(rainbowctl("get all --selector at>1h --filter.sortBy at --limit 1 -o json"))
    assert [row["name"] for row in recent] == ["cluster:east:project:flytesnacks"]
    assert len(json.loads(rainbowctl("get all --filter.limit 3 -o json"))) == 3


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--noun pol", "there is no noun 'pol': choose"),
        ("--selector noun=pol", "there is no noun 'pol': choose"),
        ("--selector source=admin", "there is no source 'admin': choose managed, configuration or registered."),
        ("-p flytesnack", "No project is called"),
        ("-d develop", "No domain is called"),
        ("--selector nosuch=1", "there is no field 'nosuch'"),
    ],
)
def test_bad_questions_about_definitions_are_refused(rainbowctl: Command, flags: str, message: str) -> None:
    assert message in " ".join(rainbowctl(f"get all {flags}", 2).split())
