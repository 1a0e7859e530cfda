"""Configuration: one file, overridden by options; every problem names its key."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.config import Config, ConfigError, default_config_file, load_config
from agent.main import main


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(text)
    return path


def test_only_the_name_of_the_cluster_is_required(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    config = load_config(None, {"cluster": "alpha", "slots": None})
    assert config == Config(
        cluster="alpha",
        state_directory=tmp_path / "rainbow/agent/alpha",
        token_file=tmp_path / "rainbow/agent/alpha/token",
    )


def test_every_key(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
endpoint: https://rainbow.example.org
cluster: alpha
engine: slurm
engineOptions: {a: 1}
stateDirectory: state
tokenFile: /etc/rainbow/token
caFile: ca.pem
runAs: jobs
slots: 3
want: 2
pollSeconds: 0.25
plugins: [ray]
properties: {rack: 7}
""",
    )
    assert load_config(path, {}) == Config(
        endpoint="https://rainbow.example.org",
        cluster="alpha",
        engine="slurm",
        engine_options={"a": 1},
        state_directory=tmp_path / "state",
        token_file=Path("/etc/rainbow/token"),
        ca_file=str(tmp_path / "ca.pem"),
        run_as="jobs",
        slots=3,
        want=2,
        poll_seconds=0.25,
        plugins=("ray",),
        properties={"rack": 7},
    )


def test_options_override_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "cluster: alpha\nslots: 3\n")
    config = load_config(path, {"cluster": "beta", "engine": None})
    assert (config.cluster, config.slots) == ("beta", 3)


def test_paths_of_options_are_relative_to_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    path = write(tmp_path, "cluster: alpha\ncaFile: ca.pem\ntokenFile: other\n")
    config = load_config(path, {"tokenFile": "token", "stateDirectory": "state", "caFile": None})
    assert (config.token_file, config.state_directory) == (here / "token", here / "state")
    assert config.ca_file == str(tmp_path / "ca.pem"), "in the file"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cluster: a\nslot: 3", "slot: there is no such key. Did you mean slots?"),
        ("cluster: a\nstate_directory: x", "Did you mean stateDirectory?"),
        ("cluster: a\nslots: many", "slots: must be a whole number, is 'many'"),
        ("cluster: a\nslots: true", "slots: must be a whole number"),
        ("cluster: a\nslots: 0", "slots: must be from 1 to 1000"),
        ("cluster: a\npollSeconds: 0", "pollSeconds: must be from 0.01 to 60"),
        ("cluster: a/b", "cluster: must be letters"),
        ("cluster: ..", "cluster: must be letters"),
        ("cluster: a\nendpoint: localhost:8088", "endpoint: must be written as http"),
        ("cluster: a\nplugins: [1]", "plugins: must be a list of names"),
        ("cluster: a\nengineOptions: [1]", "engineOptions: must be a mapping"),
        ("cluster: a\ncluster: b", "agent.yaml:2:1: cluster: given twice"),
        ("cluster:", "cluster: must be a name"),
        ("{}", "cluster: is missing"),
        ("", "cluster: is missing"),
        ("- a", "the file must hold keys and values"),
        ("a: [", "not valid YAML"),
    ],
)
def test_problems_name_the_key(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text), {})
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "absent.yaml", {"cluster": "a"})


def test_the_default_file_of_the_user_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "rainbow").mkdir()
    (tmp_path / "rainbow/agent.yaml").write_text("cluster: a")
    assert default_config_file() == tmp_path / "rainbow/agent.yaml"


def test_the_variable_of_rainbowctls_token_does_not_name_the_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAINBOW_TOKEN_FILE", "operator.token")
    for name in ("run", "register", "rotate"):
        context = main.commands[name].make_context(name, ["--cluster", "alpha"])
        assert context.params["tokenFile"] is None
    monkeypatch.setenv("RAINBOW_AGENT_TOKEN_FILE", "alpha.token")
    assert main.commands["run"].make_context("run", ["--cluster", "alpha"]).params["tokenFile"] == "alpha.token"


def test_an_agent_that_is_set_up_as_before_says_which_variable_names_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAINBOW_TOKEN_FILE", "operator.token")
    result = CliRunner().invoke(main, ["run", "--cluster", "alpha", "--config", str(tmp_path / "absent.yaml")])
    assert "the agent's token file is set by RAINBOW_AGENT_TOKEN_FILE" in result.output
    monkeypatch.setenv("RAINBOW_AGENT_TOKEN_FILE", "alpha.token")
    result = CliRunner().invoke(main, ["run", "--cluster", "alpha", "--config", str(tmp_path / "absent.yaml")])
    assert "RAINBOW_AGENT_TOKEN_FILE" not in result.output
