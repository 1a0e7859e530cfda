"""flytectl's own configuration, read where there is none of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctl.client.contexts import Setting, load_settings
from ctl.client.errors import InvalidInput
from ctl.client.flyte_config import read_flyte_config

FILE = """
admin:
  endpoint: dns:///flyte.example.com
  insecure: false
  authType: Pkce
  clientId: my-client
console: {endpoint: https://console.example.com}
task:
  project: flytesnacks
  domain: development
logger: {level: 5}
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "flyte.yaml"
    path.write_text(FILE)
    return {"FLYTECTL_CONFIG": str(path), "XDG_CONFIG_HOME": str(tmp_path)}


def test_endpoint_project_and_domain_are_taken_with_a_word_of_it(environ: dict[str, str]) -> None:
    path = environ["FLYTECTL_CONFIG"]
    settings = load_settings({}, environ)
    assert settings.endpoint == Setting(value="https://flyte.example.com", origin=path)
    assert (settings.project.value, settings.domain.value) == ("flytesnacks", "development")
    assert settings.flyte is not None
    assert settings.flyte.note == (
        f"Taken from {path}: endpoint https://flyte.example.com, project flytesnacks and domain development. Its "
        "authType Pkce has no meaning here: the admin takes a bearer token, from --token-file. "
        "`rainbowctl config init` writes a configuration of its own."
    )


def test_an_endpoint_or_a_configuration_of_ours_leaves_it_unread(environ: dict[str, str], tmp_path: Path) -> None:
    for typed, more in (
        ({"endpoint": "http://x"}, {}),
        ({}, {"RAINBOW_ENDPOINT": "http://x"}),
    ):
        settings = load_settings(typed, {**environ, **more})
        assert (settings.endpoint.value, settings.project.value, settings.flyte) == ("http://x", None, None)
    (tmp_path / "rainbow").mkdir()
    (tmp_path / "rainbow/config.yaml").write_text("contexts: {}\n")
    settings = load_settings({}, environ)
    assert (settings.endpoint.origin, settings.flyte) == ("default", None)


@pytest.mark.parametrize(
    ("typed", "variables"),
    [({}, {"RAINBOW_TOKEN": "t" * 20}), ({}, {"RAINBOW_TOKEN_FILE": "f"}), ({"token_file": "f"}, {})],
)
def test_a_token_of_ours_goes_to_the_endpoint_that_is_taken(
    environ: dict[str, str], typed: dict[str, str | None], variables: dict[str, str]
) -> None:
    settings = load_settings(typed, {**environ, **variables})
    assert settings.endpoint.value == "https://flyte.example.com"
    assert (settings.token_text.value or settings.token_file.value) in {"t" * 20, "f"}


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("admin: {endpoint: 'dns:///localhost:30080', insecure: true}", "http://localhost:30080"),
        ("Admin: {Endpoint: flyte.example.com:443}", "https://flyte.example.com:443"),
        ("admin: {endpoint: 'http://10.0.0.7:8088'}", "http://10.0.0.7:8088"),
    ],
)
def test_insecure_says_the_protocol(environ: dict[str, str], text: str, endpoint: str) -> None:
    Path(environ["FLYTECTL_CONFIG"]).write_text(text)
    assert load_settings({}, environ).endpoint.value == endpoint


def test_a_file_without_use_stops_nobody(environ: dict[str, str]) -> None:
    for text in ("", "logger: {level: 5}\n", "admin:\n"):
        Path(environ["FLYTECTL_CONFIG"]).write_text(text)
        assert load_settings({}, environ).flyte is None


def test_a_file_that_is_not_named_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_flyte_config({}) is None
    (tmp_path / ".flyte").mkdir()
    (tmp_path / ".flyte/config.yaml").write_text("admin: [\n")
    settings = load_settings({}, {})
    assert settings.endpoint.origin == "default"
    assert settings.flyte is not None
    assert "nothing. It cannot be read: " in settings.flyte.note


@pytest.mark.parametrize("content", [None, b"admin: [\n", b"\xff"])
def test_a_named_file_that_cannot_be_read_is_an_error(environ: dict[str, str], content: bytes | None) -> None:
    path = Path(environ["FLYTECTL_CONFIG"])
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match=f"FLYTECTL_CONFIG names {path}, which cannot be read: "):
        load_settings({}, environ)
    assert load_settings({"endpoint": "http://x"}, environ).flyte is None


def test_the_section_of_flytectls_own_flags_is_read_with_a_word_of_what_is_not(tmp_path: Path) -> None:
    path = tmp_path / "flyte.yaml"
    path.write_text(
        "admin: {endpoint: localhost:1, insecure: true}\n"
        "root: {project: flytesnacks, domain: staging, output: JSON, interactive: true, storage: {type: s3}}\n"
        "task: {project: other, domain: production}\n"
    )
    settings = load_settings({}, {"FLYTECTL_CONFIG": str(path), "XDG_CONFIG_HOME": str(tmp_path)})
    assert (settings.project.value, settings.domain.value) == ("flytesnacks", "staging")
    assert settings.output == Setting(value="json", origin=str(path))
    assert settings.flyte is not None
    assert "project flytesnacks, domain staging and output json. Not taken of its section root: interactive." in (
        settings.flyte.note
    )
    path.write_text("root: {output: DOT}\n")
    config = read_flyte_config({"FLYTECTL_CONFIG": str(path)})
    assert config is not None
    assert (config.values, config.remarks) == ({}, ("Not taken of its section root: output",))


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("admin: {endpoint: [a]}", "Its admin.endpoint is not a single text, and not taken."),
        ("task: {project: {id: p}}", "Its task.project is not a single text, and not taken."),
        ("root: [p]", "Its root is not a mapping, and not taken."),
        (
            "admin: {endpoint: h, insecure: maybe}",
            "Its admin.insecure 'maybe' is neither true nor false: https is assumed.",
        ),
        (
            "admin: {endpoint: h, insecureSkipVerify: 1}",
            "Its admin.insecureskipverify '1' is neither true nor false: certificates are verified.",
        ),
    ],
)
def test_what_is_of_another_form_is_remarked_on(environ: dict[str, str], text: str, remark: str) -> None:
    Path(environ["FLYTECTL_CONFIG"]).write_text(text)
    config = read_flyte_config(environ)
    assert config is not None
    assert remark in config.note
