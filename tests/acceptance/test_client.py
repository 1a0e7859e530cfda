"""The Python client against a real admin, and against servers that fail it."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ctl.client import Client
from ctl.client.errors import (
    ClientError,
    Conflict,
    InvalidInput,
    InvalidRequest,
    NotFound,
    ServerError,
    Unanswered,
    Unauthenticated,
    Unreachable,
)
from ctl.client.scopes import Scope
from tests.support.admins import RunningAdmin, running_admin
from tests.support.ports import free_port
from tests.support.programs import clean_environment

PAGE = Path(__file__).parents[2] / "docs/client.md"
SCOPES = [
    Scope(domain="staging"),
    Scope(project="flytesnacks"),
    Scope(project="flytesnacks", domain="staging"),
    Scope(project="flytesnacks", domain="staging", workflow="my.wf"),
    Scope(project="flytesnacks", domain="staging", workflow="my.wf", launch_plan="nightly"),
]
HERE = SCOPES[2]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    with running_admin(tmp_path_factory.mktemp("client")) as admin:
        yield admin


@pytest.fixture
def client(running: RunningAdmin) -> Iterator[Client]:
    with Client(running.url) as client:
        yield client


def run_script(script: str, endpoint: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = clean_environment(RAINBOW_ENDPOINT=endpoint, HOME=str(home), **variables)
    env.pop("XDG_CONFIG_HOME", None)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=home, env=env, capture_output=True, text=True, timeout=60
    )


@contextmanager
def server(answer: Callable[[int], bytes]) -> Iterator[tuple[str, list[str]]]:
    """A server that reads each request to its end, notes its first line, and sends `answer(count)` or hangs up."""
    requests: list[str] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                request = stream.readline()
                if not request:
                    continue
                length = 0
                while (line := stream.readline().strip()) != b"":
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                stream.read(length)
                requests.append(request.decode().rsplit(" ", 1)[0])
                connection.sendall(answer(len(requests)))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", requests
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def http(status: str, body: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, "Connection: close", "", body]).encode()


def hang_up(_count: int) -> bytes:
    return b""


def test_the_example_of_the_documentation_runs_as_it_is(admin: RunningAdmin, tmp_path: Path) -> None:
    example, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    for version in (1, 1):
        done = run_script(example, admin.url, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [
            "defaults.cpu from platform",
            "defaults.memory from platform",
            "limits.cpu from platform",
            "limits.memory from project-domain",
            f"project flyteexamples, domain development {{'value': 'mycluster'}} {version}",
        ]


def test_every_method_and_error_of_the_documentation_exists() -> None:
    from ctl import errors

    text = PAGE.read_text()
    methods = [
        name for row in re.findall(r"^\| [a-z ]+ \| (`.*`) \|$", text, flags=re.MULTILINE) for name in row.split(", ")
    ]
    assert len(methods) > 10
    for name in methods:
        assert callable(getattr(Client, name.strip("`")))
    for name in re.findall(r"`([A-Z][A-Za-z]+)`(?=.* \| )", text):
        assert issubclass(getattr(errors, name), errors.RainbowError)


def test_a_script_takes_its_settings_from_the_environment(running: RunningAdmin, tmp_path: Path) -> None:
    script = (
        "from ctl.client import Client\n"
        "with Client.from_environment() as client:\n"
        "    print(client.endpoint, *(domain['id'] for domain in client.domains()))\n"
    )
    done = run_script(script, running.url, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{running.url} development staging production\n"


@pytest.mark.slow
def test_every_kind_is_written_read_explained_and_deleted_at_every_level_it_has(admin: RunningAdmin) -> None:
    with Client(admin.url) as client:
        for kind in client.kinds():
            for scope in SCOPES:
                if scope.level not in kind.levels:
                    with pytest.raises(InvalidRequest):
                        client.put_attribute(kind, scope, dict(kind.example))
                    continue
                change = client.put_attribute(kind, scope, dict(kind.example), if_none_match=True)
                assert change.changed
                row = client.get_attribute(kind.number, scope, exact=True)
                assert (row.version, row.inherited_from) == (change.version, None)
                assert row.payload == change.payload
                [effective] = client.effective(scope, kind.name)
                assert effective.trail[-1]["level"] == scope.level
            rows = list(client.list_attributes(kind.noun, page_size=2))
            assert [row.scope for row in rows] == [scope for scope in SCOPES if scope.level in kind.levels]
            for row in rows:
                assert client.delete_attribute(kind, row.scope, if_match=row.version).changed
                assert not client.delete_attribute(kind, row.scope).changed
        assert list(client.list_attributes()) == []


def test_an_inherited_value_has_no_version_to_write_it_back_with(client: Client) -> None:
    client.create_project("heir")
    version = client.put_attribute(3, Scope(project="heir"), {"value": "mycluster"}).version
    attribute = client.get_attribute(3, Scope(project="heir", domain="staging"))
    assert (attribute.payload, attribute.version) == ({"value": "mycluster"}, None)
    assert attribute.inherited_from == {"project": "heir", "level": "project", "version": version}
    assert attribute.origins == {"value": attribute.inherited_from}


def test_leaves_are_patched_and_a_dry_run_writes_nothing(client: Client) -> None:
    client.create_project("patched")
    scope = Scope(project="patched")
    client.put_attribute(0, scope, {"limits": {"cpu": "4", "memory": "2Gi"}})
    tried = client.patch_attribute(0, scope, set={"limits": {"cpu": "8"}}, dry_run=True)
    assert (tried.changed, tried.payload["limits"]["cpu"]) == (True, "8")
    change = client.patch_attribute(
        0, scope, set={"limits": {"cpu": "6"}}, unset=["limits.gpu"], inherit=["limits.memory"]
    )
    assert (change.before, change.payload) == (
        {"limits": {"cpu": "4", "memory": "2Gi"}},
        {"limits": {"cpu": "6", "gpu": None}},
    )
    left = client.patch_attribute(0, scope, inherit=["limits.cpu", "limits.gpu"])
    assert (left.version, left.payload) == (None, {})
    assert list(client.list_attributes(0, project="patched")) == []


def test_projects_are_created_changed_and_listed(client: Client) -> None:
    client.create_project("made", name="Made", labels={"values": {"team": "ml"}})
    changed = client.update_project("made", description="by a script", state="ARCHIVED")
    assert (changed["labels"], changed["state"]) == ({"values": {"team": "ml"}}, "ARCHIVED")
    assert "made" not in [project["id"] for project in client.projects()]
    assert "made" in [project["id"] for project in client.projects("ARCHIVED")]
    with pytest.raises(Conflict) as caught:
        client.create_project("made")
    assert (caught.value.status, caught.value.name) == (409, "project_exists")


@pytest.mark.parametrize(
    ("call", "error", "status", "name"),
    [
        (lambda client: client.project("none"), NotFound, 404, "project_not_found"),
        (lambda client: client.get_attribute(2, HERE, exact=True), NotFound, 404, "attribute_not_found"),
        (lambda client: client.get_attribute(3, Scope(project="nope")), InvalidRequest, 400, "unknown_project"),
        (lambda client: client.put_attribute(3, HERE, {"valuee": "x"}), InvalidRequest, 400, None),
        (
            lambda client: client.put_attribute(2, HERE, {"tags": ["x"]}, if_match=1000),
            Conflict,
            409,
            "version_conflict",
        ),
    ],
)
def test_a_refusal_is_a_typed_error_with_the_request_id(
    client: Client, call: Callable[[Client], Any], error: type[ClientError], status: int, name: str | None
) -> None:
    with pytest.raises(error) as caught:
        call(client)
    assert caught.value.status == status
    assert name in {None, caught.value.name}
    assert caught.value.message
    assert caught.value.request_id


def test_what_cannot_be_sent_is_refused_before(client: Client) -> None:
    with pytest.raises(InvalidInput):
        Scope(project="..")
    with pytest.raises(InvalidInput):
        client.project("")
    with pytest.raises(InvalidInput, match="Did you mean execution-cluster-label"):
        client.get_attribute("execution-cluster-lable", HERE)


def test_a_wrong_token_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-the-admin-and-its-users\n")
    guarded = {"RAINBOW_SERVER_API_TOKEN_FILE": str(tmp_path / "token")}
    with running_admin(tmp_path, environment=guarded) as admin:
        for token in (None, "wrong"):
            with Client(admin.url, token=token) as client, pytest.raises(Unauthenticated) as caught:
                client.domains()
            assert caught.value.status == 401
        with Client(admin.url, token="a-token-of-the-admin-and-its-users") as client:
            assert client.domains()


WRITES: dict[str, Callable[[Client], Any]] = {
    "PUT": lambda client: client.put_attribute(3, HERE, {"value": "x"}),
    "PUT with a version": lambda client: client.put_attribute(3, HERE, {"value": "x"}, if_match=1),
    "PATCH": lambda client: client.patch_attribute(3, HERE, set={"value": "x"}),
    "DELETE": lambda client: client.delete_attribute(3, HERE),
    "POST": lambda client: client.create_project("p"),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_may_have_arrived_is_sent_once(write: str) -> None:
    with server(hang_up) as (url, requests), Client(url) as client:
        with pytest.raises(Unanswered, match="It may have been carried out"):
            WRITES[write](client)
        assert [request.split()[0] for request in requests] == [write.split()[0]]


@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_is_answered_503_is_sent_once(write: str) -> None:
    body = '{"code": 14, "error": "unavailable", "message": "Not ready."}'
    with server(lambda count: http("503 Service Unavailable", body)) as (url, requests), Client(url) as client:
        with pytest.raises(Unreachable) as caught:
            WRITES[write](client)
        assert (caught.value.status, caught.value.name, len(requests)) == (503, "unavailable", 1)


def test_a_read_is_tried_again_after_a_dropped_connection_and_no_more_than_told() -> None:
    good = http("200 OK", '{"domains": [{"id": "d"}]}')
    with server(lambda count: good if count == 3 else b"") as (url, requests), Client(url) as client:
        assert client.domains() == [{"id": "d"}]
        assert len(requests) == 3
    with server(hang_up) as (url, requests), Client(url) as client:
        with pytest.raises(Unreachable, match="it closed the connection"):
            client.domains()
        assert len(requests) == 3
    with server(hang_up) as (url, requests), Client(url, retries=0) as client:
        with pytest.raises(Unreachable):
            client.domains()
        assert len(requests) == 1


def test_a_dry_run_is_tried_again_like_a_read() -> None:
    good = http("200 OK", '{"changed": true, "dry_run": true}')
    with server(lambda count: good if count == 2 else b"") as (url, requests), Client(url) as client:
        assert client.put_attribute(3, HERE, {"value": "x"}, dry_run=True).changed
        assert len(requests) == 2


def test_a_read_that_is_answered_503_is_tried_again_when_the_admin_says() -> None:
    busy = http("503 Service Unavailable", '{"message": "Not ready."}', "Retry-After: 1")
    good = http("200 OK", '{"domains": []}')
    with server(lambda count: busy if count == 1 else good) as (url, requests), Client(url) as client:
        start = time.monotonic()
        assert client.domains() == []
        assert time.monotonic() - start >= 1.0
        assert requests == ["GET /api/v1/domains"] * 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (http("200 OK", "<html>"), "not as an admin does"),
        (http("200 OK", "[]"), "not as an admin does"),
        (http("200 OK", "{}"), "without 'domains'"),
        (http("302 Found", "", "Location: https://login.example.org/"), "redirects to https://login.example.org/"),
        (http("404 Not Found", "nothing here"), "not as an admin does"),
    ],
)
def test_what_is_no_admin_is_told_apart(answer: bytes, message: str) -> None:
    with (
        server(lambda count: answer) as (url, _),
        Client(url) as client,
        pytest.raises(ServerError, match=re.escape(message)),
    ):
        client.domains()


def test_an_admin_that_is_not_there_is_unreachable_for_reads_and_writes() -> None:
    with Client(f"http://127.0.0.1:{free_port()}", retries=0) as client:
        for call in (lambda: client.domains(), lambda: client.put_attribute(3, HERE, {"value": "x"})):
            with pytest.raises(Unreachable, match="connection refused") as caught:
                call()
            assert not isinstance(caught.value, Unanswered)


def test_a_misspelt_option_is_refused_before_anything_is_written(admin: RunningAdmin) -> None:
    with Client(admin.url) as client:
        options: dict[str, Any] = {"dryrun": True}
        with pytest.raises(TypeError, match="dryrun"):
            client.put_attribute("execution-cluster-label", Scope(domain="staging"), {"value": "x"}, **options)
        assert list(client.list_attributes("execution-cluster-label")) == []
