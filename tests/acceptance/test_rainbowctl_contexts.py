"""Contexts: which admin is spoken to, with which token, and where project and domain come from."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from tests.support.admins import RunningAdmin, running_admin
from tests.support.servers import serving
from tests.support.shells import Shell


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    with running_admin(tmp_path_factory.mktemp("contexts")) as admin:
        yield admin


@pytest.fixture
def shell(running: RunningAdmin, tmp_path: Path) -> Shell:
    """A shell in a home without contexts, where no variable says where the admin is."""
    shell = Shell(running, tmp_path)
    del shell.environment["RAINBOW_ENDPOINT"]
    return shell


@contextmanager
def listener() -> Iterator[tuple[str, list[str | None]]]:
    """A server that answers any read like an admin without projects, and notes which token came."""
    tokens: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            tokens.append(self.headers.get("Authorization"))
            body = b'{"projects": []}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}", tokens


def test_a_configuration_is_written_once(shell: Shell) -> None:
    file = shell.home / ".config/rainbow/config.yaml"
    host = shell.admin.url.removeprefix("http://")
    done = shell.run(f"rainbowctl config init --host dns:///{host} -p flytesnacks")
    assert (done.status, done.out) == (0, "")
    assert done.err == f"Wrote {file}: the context default, for http://{host}, is in use.\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    entry = {"endpoint": f"http://{host}", "project": "flytesnacks"}
    assert yaml.safe_load(file.read_text()) == {"current_context": "default", "contexts": {"default": entry}}
    shell.ok("rainbowctl get project")
    text = file.read_text()
    assert "exists: use --force to overwrite it." in shell.refused(2, "rainbowctl config init --host other.example")
    with shell.at_terminal("rainbowctl config init --host other.example") as terminal:
        terminal.wait_for("Overwrite it? [y/N] ")
        terminal.type("n\n")
        assert terminal.finish().status == 1
    assert file.read_text() == text
    shell.ok("rainbowctl config init --host other.example --insecure --force")
    assert yaml.safe_load(file.read_text())["contexts"] == {"default": {"endpoint": "http://other.example"}}
    shell.ok("rainbowctl config init --host other.example --force")
    assert yaml.safe_load(file.read_text())["contexts"] == {"default": {"endpoint": "https://other.example"}}
    assert "keep one of the two" in shell.refused(2, "rainbowctl config init --host https://x.example --insecure")
    assert "no valid host" in shell.refused(2, "rainbowctl config init --host 'a b' --force")
    assert "--host a/b is no host" in shell.refused(2, "rainbowctl config init --host a/b --force")


def test_flytectls_configuration_is_read_where_there_is_none_of_ours(shell: Shell) -> None:
    (shell.home / ".flyte").mkdir()
    host = shell.admin.url.removeprefix("http://")
    (shell.home / ".flyte/config.yaml").write_text(
        f"admin:\n  endpoint: dns:///{host}\n  insecure: true\n  authType: Pkce\n"
    )
    done = shell.run("rainbowctl get domain -o name")
    assert (done.status, done.out.splitlines()[0]) == (0, "domain/development")
    assert done.err.startswith(f"Taken from ~/.flyte/config.yaml: endpoint http://{host}. Its authType Pkce has no ")
    assert shell.run("rainbowctl get domain -o name -q").err == ""
    shell.ok(f"rainbowctl config init --host {host}")
    assert shell.run("rainbowctl get domain -o name").err == ""


def test_a_context_is_made_used_shown_changed_and_deleted(shell: Shell) -> None:
    file = shell.home / ".config/rainbow/config.yaml"
    done = shell.run(f"rainbowctl config set-context work --endpoint {shell.admin.url} --project flytesnacks")
    assert (done.status, done.out, done.err) == (0, "", f"Made context work in {file}. It is in use.\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    shell.ok("rainbowctl config set-context play --endpoint http://127.0.0.1:9")
    assert shell.ok("rainbowctl config current-context") == "work\n"
    assert "flytesnacks" in shell.ok("rainbowctl get project")
    assert shell.run("rainbowctl config use-context play").err == "Context play is in use.\n"
    shell.refused(6, "rainbowctl get project")
    assert "flytesnacks" in shell.ok("rainbowctl get project --context work")
    assert "flytesnacks" in shell.ok("rainbowctl get project", RAINBOW_CONTEXT="work")
    shell.ok("rainbowctl config set-context work --domain staging --timeout 20 --project ''")
    assert yaml.safe_load(file.read_text()) == {
        "current_context": "play",
        "contexts": {
            "work": {"endpoint": shell.admin.url, "domain": "staging", "timeout": "20"},
            "play": {"endpoint": "http://127.0.0.1:9"},
        },
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [line.split()[:2] for line in shell.ok("rainbowctl config get-contexts --no-headers").splitlines()] == [
        ["-", "work"],
        ["*", "play"],
    ]
    chosen = json.loads(shell.ok("rainbowctl config get-contexts --filter.fieldSelector domain=staging -o json"))
    assert (chosen["current_context"], list(chosen["contexts"])) == ("play", ["work"])
    assert shell.run("rainbowctl config delete-context play").err == "Deleted context play. No context is in use now.\n"
    shell.refused(3, "rainbowctl config current-context")
    assert "Did you mean work?" in shell.refused(2, "rainbowctl config use-context workk")
    assert "There is no context 'play'" in shell.refused(2, "rainbowctl get project --context play")


def test_a_flag_wins_over_a_variable_a_variable_over_the_context_and_the_view_says_so(shell: Shell) -> None:
    shell.ok("rainbowctl config set-context here --endpoint http://127.0.0.1:9 --project p --domain d")
    view = "rainbowctl config view -o json"

    def endpoint(command: str, **variables: str) -> tuple[str, str]:
        shown = json.loads(shell.ok(command, **variables))["endpoint"]
        return shown["value"], shown["origin"]

    assert endpoint(view) == ("http://127.0.0.1:9", "context here")
    assert endpoint(view, RAINBOW_ENDPOINT="http://variable") == ("http://variable", "RAINBOW_ENDPOINT")
    flag = f"{view} --endpoint {shell.admin.url}"
    assert endpoint(flag, RAINBOW_ENDPOINT="http://variable") == (shell.admin.url, "--endpoint")
    # And it is not only shown.
    shell.refused(6, "rainbowctl get domain")
    shell.ok("rainbowctl get domain", RAINBOW_ENDPOINT=shell.admin.url)
    shell.ok(f"rainbowctl get domain --endpoint {shell.admin.url}", RAINBOW_ENDPOINT="http://127.0.0.1:9")
    shell.ok(f"rainbowctl --endpoint {shell.admin.url} get domain")


def test_a_token_is_not_shown(shell: Shell) -> None:
    done = shell.run("rainbowctl config view", RAINBOW_TOKEN="very-secret")
    assert "very-secret" not in done.out + done.err
    assert "token       ********" in done.out


def test_project_and_domain_of_the_context_are_taken_unless_one_is_typed(shell: Shell) -> None:
    name = shell.project("ctx")
    shell.ok(f"rainbowctl config set-context here --endpoint {shell.admin.url} --project {name} --domain staging")
    update = "rainbowctl update execution-cluster-label -q --value mycluster"
    shell.ok(update)
    shell.ok(f"{update} my.wf")
    shell.ok(update, RAINBOW_DOMAIN="production")
    shell.ok(f"{update} -p {name}")
    shell.ok(f"{update} -p {name} -d development")
    stored = [(row["level"], row.get("domain")) for row in shell.rows("3", f"project={name}")]
    assert sorted(stored, key=str) == [
        ("project", None),
        ("project-domain", "development"),
        ("project-domain", "production"),
        ("project-domain", "staging"),
        ("workflow", "staging"),
    ]
    # What a file names is its whole scope.
    shell.ok("rainbowctl update workflow-priority -q --attrFile -", stdin=f"project: {name}\npriority: 3\n")
    shell.ok("rainbowctl update workflow-priority -q --attrFile -", stdin="priority: 4\n")
    stored = [(row["level"], row["attributes"]["priority"]) for row in shell.rows("10", f"project={name}")]
    assert sorted(stored) == [("project", 3), ("project-domain", 4)]


def test_a_file_of_contexts_asked_for_by_name_must_exist_and_be_right(shell: Shell) -> None:
    message = shell.refused(2, "rainbowctl -c none.yaml get project")
    assert message == "error: The configuration none.yaml (--config) does not exist.\n"
    assert "(RAINBOW_CONFIG) does not exist" in shell.refused(2, "rainbowctl get project", RAINBOW_CONFIG="none.yaml")
    shell.file("bad.yaml", "contexts:\n  a: {endpointt: http://x}\n")
    assert "unknown key 'endpointt'. Did you mean endpoint?" in shell.refused(2, "rainbowctl get project -c bad.yaml")
    shell.ok(f"rainbowctl -c mine.yaml config set-context a --endpoint {shell.admin.url}")
    assert "flytesnacks" in shell.ok("rainbowctl get project -c mine.yaml")
    assert not (shell.home / ".config").exists()


def test_the_token_of_a_context_goes_to_its_own_admin_and_to_nobody_else(shell: Shell) -> None:
    shell.file("token", "the-token-of-home\n")
    (shell.cwd / "token").chmod(0o600)
    with listener() as (home, home_tokens), listener() as (other, other_tokens):
        shell.ok(f"rainbowctl config set-context home --endpoint {home} --token-file token")
        shell.ok(f"rainbowctl config set-context guest --endpoint {other}")
        shell.ok("rainbowctl get project")
        shell.ok(f"rainbowctl get project --endpoint {home}")
        assert home_tokens == ["Bearer the-token-of-home"] * 2
        shell.ok(f"rainbowctl get project --endpoint {other}")
        shell.ok("rainbowctl get project", RAINBOW_ENDPOINT=other)
        shell.ok("rainbowctl get project --context guest")
        assert other_tokens == [None] * 3
        # Someone who names the token means it.
        shell.ok(f"rainbowctl get project --endpoint {other} --token-file token")
        shell.ok("rainbowctl get project", RAINBOW_ENDPOINT=other, RAINBOW_TOKEN_FILE=str(shell.cwd / "token"))
        shell.ok(f"rainbowctl get project --endpoint {other} --token-file {shell.cwd}/token")
        assert other_tokens[3:] == ["Bearer the-token-of-home"] * 3
        view = json.loads(shell.ok(f"rainbowctl config view -o json --endpoint {other}"))
        assert "token_file" not in view


def test_a_context_without_an_endpoint_sends_its_token_to_the_default_one(shell: Shell) -> None:
    shell.file("token", "a-token\n")
    shell.ok("rainbowctl config set-context home --token-file token")
    view = json.loads(shell.ok("rainbowctl config view -o json"))
    assert view["endpoint"] == {"value": "http://127.0.0.1:8088", "origin": "default"}
    assert view["token_file"] == {"value": str(shell.cwd / "token"), "origin": "context home"}


def test_a_token_file_that_cannot_be_used_is_named(shell: Shell) -> None:
    shell.file("two", "one\ntwo\n")
    (shell.cwd / "two").chmod(0o644)
    assert "run `chmod 600 two`" in shell.refused(2, "rainbowctl get project --token-file two")
    (shell.cwd / "two").chmod(0o600)
    assert "cannot be read" in shell.refused(2, "rainbowctl get project --token-file none")
    assert "must hold one token and nothing else" in shell.refused(2, "rainbowctl get project --token-file two")
