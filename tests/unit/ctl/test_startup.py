"""What a command imports. Nobody waits for rainbowctl: it loads nothing that the command at hand has no use for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import serving

PROGRAM = Path(sys.executable).with_name("rainbowctl")

#: What takes 10 ms or more to import, and is good for something only now and then.
HEAVY = {"requests", "urllib3", "rich", "yaml", "certifi", "asyncio", "logging", "importlib.metadata", "unittest"}
#: What only other programs of ours need.
FOREIGN = {"flask", "sqlalchemy", "marshmallow", "alembic", "granian", "admin", "agent"}
#: What it takes to talk to an admin.
WIRE = {"http.client", "ssl", "ctl.client.client"}

ROW = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "gpu"}}}, "version": 7}
ANSWERS: dict[str, Any] = {
    "/api/v1/project_domain_attributes/p/d": ROW,
    "/api/v1/effective_attributes": {"values": []},
    "/api/v1/executions": {"id": {"project": "p", "domain": "d", "name": "a"}, "created": True, "execution": {}},
    "/api/v1/executions/p/d": {"executions": [{"id": {"project": "p", "domain": "d", "name": "a"}}]},
    "/api/v1/projects": {"projects": [{"id": "flytesnacks"}]},
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        text = json.dumps(ANSWERS[self.path.partition("?")[0]]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}"


def imported(command: str, home: Path, **variables: str) -> tuple[str, set[str]]:
    """What a command prints, and every module that it imports; one of a package counts as the package too."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAINBOW_")}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(PROGRAM), *command.split()],
        env={**kept, "HOME": str(home), "XDG_CONFIG_HOME": str(home), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    names = re.findall(r"^import time:.*\|\s*(\S+)$", done.stderr, flags=re.MULTILINE)
    return done.stdout, {*names, *(name.partition(".")[0] for name in names)}


def ours(modules: set[str]) -> set[str]:
    return {name.removeprefix("ctl.") for name in modules if name.startswith("ctl.")}


def test_help_is_the_parser_and_nothing_else(tmp_path: Path) -> None:
    out, modules = imported("--help", tmp_path)
    assert "Exit status:" in out
    assert not modules & (HEAVY | FOREIGN | WIRE | {"json", "email", "difflib"})
    assert ours(modules) == {
        *("main", "cli", "cli.groups", "cli.options", "cli.output", "cli.revisions", "cli.session"),
        *("client", "client.errors", "client.formats", "client.words"),
    }


def test_help_of_a_verb_and_of_a_kind_needs_no_admin(tmp_path: Path) -> None:
    for command in ("get --help", "get execution-cluster-label --help", "create execution --help"):
        _out, modules = imported(command, tmp_path)
        assert not modules & (HEAVY | FOREIGN | WIRE), command


def test_one_read_is_the_parser_and_the_wire(tmp_path: Path, endpoint: str) -> None:
    command = f"get execution-cluster-label -p p -d d -o json --endpoint {endpoint}"
    out, modules = imported(command, tmp_path)
    assert json.loads(out) == {"project": "p", "domain": "d", "value": "gpu", "version": 7}
    assert modules >= WIRE
    assert not modules & (HEAVY | FOREIGN | {"secrets", "urllib.request"})
    # Neither what reads files nor what executions are made of.
    others = r"^files\.(?!attribute_documents)|^client\.(executions|logins|openid|schemas|times|proxies)|list$|diffs"
    assert not {name for name in ours(modules) if re.search(others, name)}


@pytest.mark.parametrize(
    "command",
    [
        "get execution -p p -d d",
        "get execution -p p -d d -o json",
        "get execution-cluster-label -p p -d d --exact",
        "create execution -p p -d d -- true",
    ],
)
def test_a_table_that_nobody_watches_is_not_drawn_and_no_file_is_parsed(
    tmp_path: Path, endpoint: str, command: str
) -> None:
    _out, modules = imported(command, tmp_path, RAINBOW_ENDPOINT=endpoint)
    assert not modules & (HEAVY | FOREIGN)


def test_what_is_needed_is_loaded(tmp_path: Path, endpoint: str) -> None:
    """The other tests would hold if nothing were seen at all."""
    out, modules = imported("get execution-cluster-label -p p -d d -o yaml", tmp_path, RAINBOW_ENDPOINT=endpoint)
    assert out == "project: p\ndomain: d\nvalue: gpu\nversion: 7\n"
    assert modules & HEAVY == {"yaml"}


def test_completion_of_words_asks_nobody_and_that_of_names_is_one_read(tmp_path: Path, endpoint: str) -> None:
    def completed(*words: str) -> tuple[str, set[str]]:
        shell = {"_RAINBOWCTL_COMPLETE": "bash_complete", "COMP_CWORD": str(len(words) - 1)}
        return imported("", tmp_path, RAINBOW_ENDPOINT=endpoint, COMP_WORDS=" ".join(words), **shell)

    out, modules = completed("rainbowctl", "expl")
    assert out == "plain,explain\n"
    assert not modules & (HEAVY | FOREIGN | WIRE)
    out, modules = completed("rainbowctl", "get", "execution", "-p", "fly")
    assert out == "plain,flytesnacks\n"
    assert not modules & (HEAVY | FOREIGN)
