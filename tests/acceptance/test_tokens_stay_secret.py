"""Tokens that are odd, foreign or sent where they do not belong: refused clearly, their secrets shown nowhere."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.acceptance.test_rainbowctl_users import token_of
from tests.support.admins import RunningAdmin, running_admin
from tests.support.raw_requests import exchange, request, statuses
from tests.support.shells import Shell
from tests.support.waiting import wait_until

SHARED = "shared-token-0123456789abcdef"


@pytest.fixture(params=["json", "text"])
def admin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningAdmin]:
    (tmp_path / "shared").write_text(f"{SHARED}\n")
    flags = ("--apiTokenFile", str(tmp_path / "shared"), "--logFormat", request.param)
    with running_admin(tmp_path, *flags, environment={"RAINBOW_LOGGING_LEVEL": "debug"}) as running:
        yield running


def test_no_secret_of_a_token_is_in_logs_answers_exports_and_process_lists(admin: RunningAdmin, tmp_path: Path) -> None:
    ada = token_of(tmp_path, "ada", "--create")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    foreign = token_of(elsewhere, "ada", "--create")
    api = f"{admin.url}/api/v1"

    def get(path: str, token: str | None = None, **headers: str) -> requests.Response:
        bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
        return requests.get(f"{api}/{path}", headers={**bearer, **headers}, timeout=60)

    wait_until(lambda: get("whoami", ada).status_code == 200)
    answers = [
        get("whoami", foreign),
        get("whoami", ada[:-1]),
        get("whoami", f"{SHARED}x"),
        get("whoami", Authorization=f"Basic {ada}"),
        get(f"whoami?token={ada}"),
        get(f"projects?token={ada}", ada),
        get(f"projects?access_token={ada}", ada),
        get(f"whoami?token={SHARED}", SHARED),
        get(f"users/{ada}", ada),
        get(f"{ada}/nowhere", ada),
        get(f"effective_attributes?domain={ada}", ada),
        requests.post(f"{api}/users", json={"user": {"name": f"{ada} x"}}, headers={"X-Request-Id": ada}, timeout=60),
    ]
    expected = [401, 401, 401, 401, 401, 400, 400, 400, 404, 404, 400, 401]
    assert [answer.status_code for answer in answers] == expected
    for answer in answers[:8]:
        assert not [token for token in (ada, foreign, SHARED, ada[13:30]) if token in answer.text]
    exported = Shell(admin, tmp_path).ok("rainbowctl export", RAINBOW_TOKEN=ada)
    assert ada[13:30] not in exported
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    log = admin.log.read_text()
    assert "refused" in log
    for secret in (ada[13:30], foreign[13:30], SHARED):
        assert (secret in log, secret in processes) == (False, False)


@pytest.mark.parametrize(
    ("token", "status"),
    [
        ("rbu-" + "0" * 1_000_000, 431),
        ("x" * 1_000_000, 431),
        ("rbu-" + "0" * 30_000, 401),
        ("rbu-käse-" + "ä" * 40, 401),
        ("rbu-\x01\x7f", 400),
        ("rbu-' OR 1=1 --", 401),
        ("rbu-%00%00-\\x00", 401),
        ("rbu-", 401),
        ("rbc-", 401),
        ("rbu-00000000", 401),
    ],
)
def test_an_odd_token_is_refused_clearly(odd_admin: RunningAdmin, token: str, status: int) -> None:
    headers = {"Authorization": f"Bearer {token}", "Connection": "close"}
    answer = exchange(odd_admin.url, request("GET", "/api/v1/projects", headers=headers))
    assert statuses(answer) in ([status], [] if status == 431 else [status]), answer[:300]
    if status == 401:
        body = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert (body["error"], "token" in body["message"]) == ("unauthenticated", True)
    assert token[:20] not in odd_admin.log.read_text() or len(token) < 20


@pytest.fixture(scope="module")
def odd_admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    directory = tmp_path_factory.mktemp("odd")
    with running_admin(directory) as running:
        token_of(directory, "ada", "--create")
        wait_until(lambda: {running.get("/api/v1/projects").status_code for _ in range(10)} == {401})
        yield running
