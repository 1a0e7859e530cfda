"""Logging in at a real OpenID provider: by a code and by a browser, quiet refreshes, and the end of a login."""

from __future__ import annotations

import json
import re
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from ctl.client.errors import LoginRefused
from ctl.client.openid import Provider
from tests.acceptance.test_server import rainbow_admin
from tests.support.admins import RunningAdmin, running_admin
from tests.support.openid_provider import CLIENT, OpenIdProvider
from tests.support.openid_tokens import AUDIENCE
from tests.support.shells import Done, Shell
from tests.support.waiting import wait_until

_SECONDS = 60


def variables(provider: OpenIdProvider, **changes: str) -> dict[str, str]:
    """The environment of an admin at whose provider users log in."""
    return {
        "RAINBOW_OPENID_ISSUER": provider.issuer,
        "RAINBOW_OPENID_AUDIENCE": AUDIENCE,
        "RAINBOW_OPENID_CLIENT_ID": CLIENT,
        "RAINBOW_SERVER_WORKERS": "1",
        **changes,
    }


@pytest.fixture(scope="module")
def running(openid_provider: OpenIdProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    directory = tmp_path_factory.mktemp("login")
    with running_admin(directory, environment=variables(openid_provider)) as admin:
        give_roles(admin, directory)
        yield admin


def give_roles(admin: RunningAdmin, directory: Path) -> None:
    """Let the provider's users submit, as the administrator from the admin's host does."""
    database = ["--database", f"sqlite:///{directory / 'rainbow.db'}"]
    done = rainbow_admin("create-token", "root", "--create", *database, cwd=directory)
    assert done.returncode == 0, done.stderr
    for user in ("ana", "ben"):
        headers = {"Authorization": f"Bearer {done.stdout.strip()}"}
        grant = {"grant": {"role": "submitter", "user": user}}
        requests.post(f"{admin.url}/api/v1/grants", json=grant, headers=headers, timeout=60).raise_for_status()


def make_shell(admin: RunningAdmin, directory: Path) -> Shell:
    """A shell whose browser writes down what it was to open."""
    shell = Shell(admin, directory)
    browser = shell.home / "browser"
    browser.write_text(
        f'#!/bin/sh\nprintf %s "$1" > {shell.home}/url.part && mv {shell.home}/url.part {shell.home}/url\n'
    )
    browser.chmod(0o755)
    shell.environment["BROWSER"] = f"{browser} %s"
    return shell


@pytest.fixture
def shell(running: RunningAdmin, tmp_path: Path) -> Shell:
    return make_shell(running, tmp_path)


def finish(process: subprocess.Popen[bytes]) -> Done:
    out, err = process.communicate(timeout=_SECONDS)
    return Done(status=process.returncode, out=out.decode(), err=err.decode())


def opened_url(shell: Shell) -> str:
    """What the browser was to open."""
    file = shell.home / "url"
    wait_until(file.exists, explain=lambda: "no browser was opened")
    url = file.read_text()
    file.unlink()
    return url


def log_in(shell: Shell, provider: OpenIdProvider, user: str = "ana", flags: str = "") -> Done:
    with shell.running(f"rainbowctl login --browser {flags}") as process:
        page = provider.visit(opened_url(shell), user)
        assert "rainbowctl goes on" in page.text
        return finish(process)


def logins_of(shell: Shell) -> Path:
    return shell.home / ".config/rainbow/logins.json"


def stored(shell: Shell) -> dict[str, Any]:
    [login] = json.loads(logins_of(shell).read_text())["logins"]
    return dict(login)


def change_stored(shell: Shell, **changes: Any) -> dict[str, Any]:
    login = {**stored(shell), **changes}
    logins_of(shell).write_text(json.dumps({"logins": [login]}))
    return login


def test_a_device_login_is_confirmed_in_any_browser(shell: Shell, openid_provider: OpenIdProvider) -> None:
    assert "Run `rainbowctl login`" in shell.refused(4, "rainbowctl get project")
    with shell.running("rainbowctl login -o json") as process:
        assert process.stderr is not None
        told = process.stderr.readline().decode()
        match = re.fullmatch(r"Open (\S+) and enter the code (\S+)\. Or open (\S+), and compare the code\.\n", told)
        assert match is not None, told
        assert match[1] == f"{openid_provider.issuer}/device"
        page = openid_provider.visit(match[3], "ana")
        assert "Sign-in Success" in page.text
        done = finish(process)
    assert done.status == 0, done.err
    document = json.loads(done.out)
    assert document.keys() == {"endpoint", "issuer", "expires_at", "user"}
    assert (document["endpoint"], document["issuer"]) == (shell.admin.url, openid_provider.issuer)
    assert document["user"] == "ana"
    assert stat.S_IMODE(logins_of(shell).stat().st_mode) == 0o600
    assert "flytesnacks" in shell.ok("rainbowctl get project")
    assert stored(shell)["access_token"] not in done.out + done.err + told


def test_a_browser_login_comes_back_on_loopback(shell: Shell, openid_provider: OpenIdProvider) -> None:
    done = log_in(shell, openid_provider)
    assert (done.status, done.out) == (0, ""), done.err
    assert f"Logged in to {shell.admin.url} as ana, at {openid_provider.issuer}." in done.err
    assert shell.ok("rainbowctl whoami") == "ana (by OpenID), in ml, search\n"
    told = json.loads(shell.ok("rainbowctl whoami -o json"))
    assert told == {"user": "ana", "groups": ["ml", "search"], "proof": "openid"}
    spec = "-p flytesnacks -d development -o json -- true"
    created = json.loads(shell.ok(f"rainbowctl create execution {spec}"))
    assert (created["execution"]["created_by"], created["execution"]["created_proof"]) == ("ana", "openid")
    view = json.loads(shell.ok("rainbowctl config view -o json"))
    assert view["token"] == {"value": "********", "origin": "rainbowctl login"}


def test_a_browser_that_is_sent_by_somebody_else_is_turned_away(shell: Shell, openid_provider: OpenIdProvider) -> None:
    with shell.running("rainbowctl login --browser") as process:
        url = opened_url(shell)
        [callback] = re.findall(r"redirect_uri=http%3A%2F%2F127\.0\.0\.1%3A(\d+)%2Fcallback", url)
        for query in ("code=stolen", "code=stolen&state=guessed", "", "error=access_denied"):
            answer = requests.get(f"http://127.0.0.1:{callback}/callback?{query}", timeout=_SECONDS)
            assert answer.status_code == 404
        openid_provider.visit(url, "ana")
        assert finish(process).status == 0


def test_a_login_that_is_cancelled_keeps_nothing(shell: Shell, openid_provider: OpenIdProvider) -> None:
    with shell.running("rainbowctl login --browser") as process:
        page = openid_provider.refuse(opened_url(shell))
        assert "rainbowctl says why" in page.text
        done = finish(process)
    assert (done.status, done.out) == (4, "")
    assert "refuses" in done.err
    assert not logins_of(shell).exists()


def test_a_token_that_has_expired_is_refreshed_quietly(shell: Shell, openid_provider: OpenIdProvider) -> None:
    log_in(shell, openid_provider)
    before = change_stored(shell, expires_at=1.0)
    done = shell.run("rainbowctl get project")
    assert done.status == 0, done.err
    after = stored(shell)
    assert after["access_token"] != before["access_token"]
    assert after["expires_at"] > 1.0
    assert stat.S_IMODE(logins_of(shell).stat().st_mode) == 0o600
    assert shell.run("rainbowctl get project").err == done.err  # which says nothing of a refresh


def test_commands_at_once_refresh_a_login_once(shell: Shell, openid_provider: OpenIdProvider) -> None:
    """The provider ends a login whose refresh token is used twice."""
    log_in(shell, openid_provider)
    for _ in range(3):
        change_stored(shell, expires_at=1.0)
        with ThreadPoolExecutor(5) as pool:
            statuses = list(pool.map(lambda _: shell.run("rainbowctl get project").status, range(5)))
        assert statuses == [0] * 5


def test_a_login_that_has_ended_says_to_log_in_again(shell: Shell, openid_provider: OpenIdProvider) -> None:
    log_in(shell, openid_provider)
    login = change_stored(shell, expires_at=1.0)
    Provider(openid_provider.issuer, CLIENT).revoke(login["refresh_token"])
    assert "has ended. Run `rainbowctl login` again." in shell.refused(4, "rainbowctl get project")
    change_stored(shell, refresh_token=None)
    assert "has expired. Run `rainbowctl login` again." in shell.refused(4, "rainbowctl get project")
    assert log_in(shell, openid_provider, "ben").status == 0
    assert shell.ok("rainbowctl get project")


def test_logging_out_deletes_the_tokens_and_ends_the_login(shell: Shell, openid_provider: OpenIdProvider) -> None:
    log_in(shell, openid_provider)
    login = stored(shell)
    done = shell.run("rainbowctl logout -o json")
    assert done.status == 0, done.err
    document = json.loads(done.out)
    assert (document["changed"], document["revoked"], document["endpoint"]) == (True, True, shell.admin.url)
    assert json.loads(logins_of(shell).read_text()) == {"logins": []}
    with pytest.raises(LoginRefused):
        Provider(openid_provider.issuer, CLIENT).refresh(login["refresh_token"])
    assert "Run `rainbowctl login`" in shell.refused(4, "rainbowctl get project")
    again = shell.run("rainbowctl logout")
    assert (again.status, again.err) == (0, f"No changes: there was no login to {shell.admin.url}.\n")


def test_each_context_has_its_own_login(shell: Shell, openid_provider: OpenIdProvider) -> None:
    for name in ("first", "second"):
        shell.ok(f"rainbowctl config set-context {name} --endpoint {shell.admin.url}")
    del shell.environment["RAINBOW_ENDPOINT"]
    log_in(shell, openid_provider, "ana", "--context first")
    assert shell.run("rainbowctl --context second get project").status == 4
    log_in(shell, openid_provider, "ben", "--context second")
    for name, user in (("first", "ana"), ("second", "ben")):
        spec = "-p flytesnacks -d development -o json -- true"
        created = json.loads(shell.ok(f"rainbowctl --context {name} create execution {spec}"))
        assert created["execution"]["created_by"] == user
    shell.ok("rainbowctl --context first logout")
    assert shell.run("rainbowctl --context first get project").status == 4
    assert shell.run("rainbowctl --context second get project").status == 0


def test_a_file_that_others_may_read_is_refused_with_the_command_that_mends_it(
    shell: Shell, openid_provider: OpenIdProvider
) -> None:
    log_in(shell, openid_provider)
    logins_of(shell).chmod(0o644)
    for command in ("get project", "login --browser", "logout"):
        refusal = shell.refused(2, f"rainbowctl {command}")
        assert f"run `chmod 600 {logins_of(shell)}`" in refusal
    shell.ok(f"chmod 600 {logins_of(shell)}")
    assert shell.ok("rainbowctl get project")


def test_a_given_token_wins_over_a_login_which_says_so(shell: Shell, openid_provider: OpenIdProvider) -> None:
    shell.environment["RAINBOW_TOKEN"] = "given"
    done = log_in(shell, openid_provider)
    assert "warning: a token is given too (RAINBOW_TOKEN), and wins over this login" in done.err
    assert shell.run("rainbowctl get project").status == 4


@pytest.mark.slow
def test_while_the_provider_is_down_a_login_works_until_it_expires(
    shell: Shell, openid_provider: OpenIdProvider
) -> None:
    log_in(shell, openid_provider)
    openid_provider.stop()
    try:
        assert shell.ok("rainbowctl get project")
        for command in ("login", "login --browser"):
            assert f"{openid_provider.issuer} cannot be reached" in shell.refused(6, f"rainbowctl {command}")
        login = change_stored(shell, expires_at=1.0)
        assert "The token has expired, and cannot be refreshed." in shell.refused(6, "rainbowctl get project")
        assert stored(shell) == login  # for when it is back
        done = shell.run("rainbowctl logout")
        assert done.status == 0
        assert "warning: the login could not be ended at the provider." in done.err
        assert json.loads(logins_of(shell).read_text()) == {"logins": []}
    finally:
        openid_provider.start()


def test_a_token_that_the_admin_refuses_is_not_kept(openid_provider: OpenIdProvider, tmp_path: Path) -> None:
    environment = variables(openid_provider, RAINBOW_OPENID_AUDIENCE="https://other.example.org")
    with running_admin(tmp_path, environment=environment) as admin:
        shell = make_shell(admin, tmp_path)
        done = log_in(shell, openid_provider)
        assert done.status == 4
        assert "the admin refuses it: The token is not for this admin" in done.err
        assert not logins_of(shell).exists()


def test_an_admin_without_a_provider_or_a_client_says_so(openid_provider: OpenIdProvider, tmp_path: Path) -> None:
    with running_admin(tmp_path) as admin:
        assert "has no OpenID provider" in Shell(admin, tmp_path).refused(3, "rainbowctl login")
    environment = variables(openid_provider)
    del environment["RAINBOW_OPENID_CLIENT_ID"]
    with running_admin(tmp_path, environment=environment) as admin:
        assert "openid.clientId" in Shell(admin, tmp_path).refused(2, "rainbowctl login")


def test_a_token_of_a_megabyte_is_refused_by_a_real_server(running: RunningAdmin) -> None:
    for size in (20_000, 1024 * 1024):
        try:
            answer = running.get("/api/v1/kinds", headers={"Authorization": f"Bearer {'x' * size}"})
        except requests.ConnectionError:
            continue  # the server closes a connection whose head is that large
        assert answer.status_code in {401, 431}
    assert running.get("/healthz").status_code == 200
