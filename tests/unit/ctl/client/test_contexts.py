from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ctl.client.contexts import (
    Configuration,
    Setting,
    load_configuration,
    load_settings,
    save_configuration,
    write_private,
)
from ctl.client.errors import InvalidInput

FILE = """
current-context: staging
contexts:
  staging:
    endpoint: https://staging.example.org
    tokenFile: /tokens/staging
    project: p
    domain: d
    timeout: 5
  local: {endpoint: "http://127.0.0.1:8088"}
  empty:
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "config.yaml"
    path.write_text(FILE)
    return {"RAINBOW_CONFIG": str(path)}


def test_a_flag_wins_over_a_variable_a_variable_over_the_context_the_context_over_the_default(
    environ: dict[str, str],
) -> None:
    variables = {**environ, "RAINBOW_ENDPOINT": "http://variable", "RAINBOW_PROJECT": "q"}
    assert load_settings({"endpoint": "http://flag"}, variables).endpoint == Setting(
        value="http://flag", origin="--endpoint"
    )
    assert load_settings({}, variables).endpoint == Setting(value="http://variable", origin="RAINBOW_ENDPOINT")
    assert load_settings({}, environ).endpoint == Setting(value="https://staging.example.org", origin="context staging")
    assert load_settings({"context": "empty"}, environ).endpoint == Setting(
        value="http://127.0.0.1:8088", origin="default"
    )


def test_a_typed_context_wins_over_the_variable_and_the_file(environ: dict[str, str]) -> None:
    variables = {**environ, "RAINBOW_CONTEXT": "empty"}
    assert load_settings({"context": "local"}, variables).context == Setting(value="local", origin="--context")
    assert load_settings({}, variables).context == Setting(value="empty", origin="RAINBOW_CONTEXT")


@pytest.mark.parametrize("typed", [{"project": "x"}, {"domain": "x"}])
def test_a_typed_project_or_domain_switches_off_both_defaults(
    typed: dict[str, str | None], environ: dict[str, str]
) -> None:
    variables = {**environ, "RAINBOW_DOMAIN": "v", "RAINBOW_PROJECT": "v"}
    settings = load_settings(typed, variables)
    assert (settings.project.value, settings.domain.value) == (typed.get("project"), typed.get("domain"))


def test_without_a_typed_one_project_and_domain_come_from_variables_and_context(environ: dict[str, str]) -> None:
    settings = load_settings({}, {**environ, "RAINBOW_DOMAIN": "v"})
    assert (settings.project.value, settings.domain.value) == ("p", "v")


def private(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)


def test_a_typed_token_file_wins_over_a_token_in_a_variable(tmp_path: Path) -> None:
    private(tmp_path / "token", "from-file\n")
    variables = {"RAINBOW_TOKEN": "from-variable", "XDG_CONFIG_HOME": str(tmp_path)}
    assert load_settings({}, variables).token() == "from-variable"
    assert load_settings({"token_file": str(tmp_path / "token")}, variables).token() == "from-file"


@pytest.mark.parametrize("content", ["", "two\nlines", "käse"])
def test_a_token_file_must_hold_one_token(content: str, tmp_path: Path) -> None:
    private(tmp_path / "token", content)
    settings = load_settings({"token_file": str(tmp_path / "token")}, {"XDG_CONFIG_HOME": str(tmp_path)})
    with pytest.raises(InvalidInput, match="must hold one token"):
        settings.token()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o666])
def test_a_token_file_that_others_may_read_is_refused_with_what_mends_it(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "my token"
    private(path, "from-file\n")
    (tmp_path / "link").symlink_to(path)
    context = f"current_context: a\ncontexts: {{a: {{token_file: '{path}'}}}}\n"
    (tmp_path / "config.yaml").write_text(context)
    default = {"XDG_CONFIG_HOME": str(tmp_path)}
    sources = [
        load_settings({"token_file": str(path)}, default),
        load_settings({"token_file": str(tmp_path / "link")}, default),
        load_settings({}, {**default, "RAINBOW_TOKEN_FILE": str(path)}),
        load_settings({}, {"RAINBOW_CONFIG": str(tmp_path / "config.yaml")}),
    ]
    assert {settings.token() for settings in sources} == {"from-file"}
    path.chmod(mode)
    for settings in sources:
        with pytest.raises(InvalidInput, match=r"Others may read .*: run `chmod 600 .*`\."):
            settings.token()
    path.chmod(0o400)
    assert {settings.token() for settings in sources} == {"from-file"}


def test_a_token_file_of_somebody_else_is_theirs_to_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private(tmp_path / "token", "from-file\n")
    (tmp_path / "token").chmod(0o644)
    settings = load_settings({"token_file": str(tmp_path / "token")}, {"XDG_CONFIG_HOME": str(tmp_path)})
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert settings.token() == "from-file"


def test_a_file_asked_for_by_name_must_exist() -> None:
    with pytest.raises(InvalidInput, match=r"nope.yaml \(--config\) does not exist"):
        load_settings({"config": "/nonexistent/nope.yaml"}, {})


def test_the_default_file_may_be_missing(tmp_path: Path) -> None:
    settings = load_settings({}, {"XDG_CONFIG_HOME": str(tmp_path)})
    assert settings.configuration == Configuration(path=tmp_path / "rainbow/config.yaml", exists=False)


def test_an_unknown_context_is_refused_with_the_closest(environ: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match=r"no context 'stagign' \(--context\)\. Did you mean staging\?"):
        load_settings({"context": "stagign"}, environ)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("contxts: {}", "unknown key 'contxts'. Did you mean contexts?"),
        ("contexts: {a: {endpoin: x}}", "context a: unknown key 'endpoin'. Did you mean endpoint?"),
        ("contexts: [a]", "contexts must hold keys and values"),
        ("contexts: {a: b}", "context a must hold keys and values"),
        ("contexts: [", "not valid YAML"),
        ("[a, b]", "the file must hold keys and values"),
        ("contexts: {a: {project: b, project: c}}", "contexts.a.project: given twice: keep one of the two"),
    ],
)
def test_wrong_keys_in_the_file_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        load_configuration(Setting(value=str(path), origin="--config"))
    assert message in caught.value.in_one_line()


@pytest.mark.parametrize(("text", "seconds"), [("30", 30.0), ("1.5s", 1.5)])
def test_a_timeout_is_a_number_of_seconds(text: str, seconds: float, tmp_path: Path) -> None:
    settings = load_settings({"timeout": text}, {"XDG_CONFIG_HOME": str(tmp_path)})
    assert settings.timeout_seconds == seconds


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon"])
def test_a_timeout_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    settings = load_settings({"timeout": text}, {"XDG_CONFIG_HOME": str(tmp_path)})
    with pytest.raises(InvalidInput, match="number of seconds"):
        _ = settings.timeout_seconds


def test_what_is_saved_is_read_again_and_private(tmp_path: Path) -> None:
    path = tmp_path / "new/rainbow/config.yaml"
    saved = Configuration(path=path, current_context="a", contexts={"a": {"endpoint": "http://x", "timeout": "5"}})
    save_configuration(saved)
    assert load_configuration(Setting(value=str(path), origin="default")) == saved
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_writing_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_private(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]


def test_a_configuration_of_flytectl_is_called_that(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("admin:\n  endpoint: dns:///flyte.example.com\n")
    with pytest.raises(InvalidInput, match=r"config\.yaml is a configuration of flytectl: name it in FLYTECTL_CONFIG"):
        load_configuration(Setting(value=str(path), origin="-c"))


ADMINS = """
# Mine.
admins:
  https://rainbow.example.org/: rbu-1f2e3d4c-one
  127.0.0.1:8088: rbu-5f1b09aa-two
  https://empty.example.org:
"""


def token_for(endpoint: str, tmp_path: Path, mode: int = 0o600, text: str = ADMINS) -> str | None:
    file = tmp_path / "tokens.yaml"
    file.write_text(text)
    file.chmod(mode)
    return load_settings({"token_file": str(file), "endpoint": endpoint}, {"XDG_CONFIG_HOME": str(tmp_path)}).token()


def test_a_file_with_the_tokens_of_several_admins_gives_that_of_the_endpoint(tmp_path: Path) -> None:
    assert token_for("rainbow.example.org", tmp_path) == "rbu-1f2e3d4c-one"
    assert token_for("http://127.0.0.1:8088", tmp_path) == "rbu-5f1b09aa-two"


def test_the_tokens_for_several_clusters_are_sent_together(tmp_path: Path) -> None:
    text = """
admins:
  https://rainbow.example.org:
    clusters: {east: rbu-1-a, west: rbu-2-b}
    clusterGroups: {racks: rbu-3-c}
"""
    assert token_for("rainbow.example.org", tmp_path, text=text) == "rbu-1-a,rbu-2-b,rbu-3-c"
    for wrong, problem in (
        ("{pools: {gpu: rbu-1-a}}", "unknown key 'pools'"),
        ("{clusters: [rbu-1-a]}", "clusters must hold keys and values"),
        ("{clusters: {east: [a]}}", "must be one token, or tokens by the names of clusters"),
        ("{clusters: {}}", "must be one token, or tokens by the names of clusters"),
        ("[a]", "must be one token, or tokens by the names of clusters"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            token_for("rainbow.example.org", tmp_path, text=f"admins:\n  https://rainbow.example.org: {wrong}\n")


def test_the_tokens_of_several_admins_are_refused_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "tokens.yaml"
    with pytest.raises(InvalidInput, match=f"run `chmod 600 {file}`"):
        token_for("rainbow.example.org", tmp_path, mode=0o640)
    with pytest.raises(
        InvalidInput, match=r"has no token for https://other\.example\.org\. It has some for https://rain"
    ):
        token_for("https://other.example.org", tmp_path)
    with pytest.raises(InvalidInput, match=r"has no token for http://rainbow\.example\.org"):
        token_for("http://rainbow.example.org", tmp_path)  # never in clear text where https is written
    with pytest.raises(InvalidInput, match="unknown key 'clusters'"):
        token_for("rainbow.example.org", tmp_path, text=f"{ADMINS}clusters: {{}}\n")
    with pytest.raises(InvalidInput, match="must hold keys and values"):
        token_for("rainbow.example.org", tmp_path, text="admins: [a]\n")
