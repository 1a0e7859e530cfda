"""Logins: one file that only its owner may read, by context and endpoint, and tokens that are refreshed quietly."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctl.client import logins
from ctl.client.contexts import load_settings
from ctl.client.errors import InvalidInput, LoginRefused, Unauthenticated, Unreachable
from ctl.client.logins import Login, Logins, LoginToken, find_login, login_token
from ctl.client.openid import Tokens

ENDPOINT = "https://rainbow.example.org"
LOGIN = Login(
    context="staging",
    endpoint=ENDPOINT,
    issuer="https://login.example.org",
    client_id="rainbowctl",
    access_token="access-1",
    refresh_token="refresh-1",
    expires_at=1000.0,
)


def kept(path: Path, *entries: Login) -> Logins:
    stored = Logins(path)
    for login in entries:
        with stored.locked():
            stored.keep(login)
    return stored


def changed(login: Login = LOGIN, **changes: Any) -> Login:
    return Login(**{**vars(login), **changes})


def test_a_login_is_kept_by_context_and_endpoint_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "rainbow/logins.json"
    other, elsewhere = changed(context=None, access_token="b"), changed(endpoint="http://127.0.0.1:8088")
    stored = kept(path, LOGIN, other, elsewhere, changed(access_token="access-2"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0
    assert stored.find("staging", ENDPOINT) == changed(access_token="access-2")
    assert stored.find(None, ENDPOINT) == other
    assert stored.find("staging", "http://127.0.0.1:8088") == elsewhere
    assert stored.find("other", ENDPOINT) is None
    with stored.locked():
        stored.forget(LOGIN)
    assert stored.find("staging", ENDPOINT) is None
    assert stored.find(None, ENDPOINT) == other


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o620])
def test_a_file_that_others_may_use_is_refused_with_the_command_that_mends_it(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "logins.json"
    stored = kept(path, LOGIN)
    path.chmod(mode)
    uses: list[Callable[[], object]] = [
        lambda: stored.find("staging", ENDPOINT),
        lambda: stored.keep(LOGIN),
        lambda: stored.forget(LOGIN),
    ]
    for use in uses:
        with pytest.raises(InvalidInput, match=f"run `chmod 600 {path}`"):
            use()
    path.chmod(0o600)
    assert stored.find("staging", ENDPOINT) == LOGIN


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"logins": {}', '{"logins": [7]}', '{"logins": [{"access_token": "secret-token"}]}']
)
def test_a_damaged_file_is_refused_without_what_it_holds(tmp_path: Path, text: str) -> None:
    path = tmp_path / "logins.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(InvalidInput, match="is damaged") as error:
        Logins(path).find(None, ENDPOINT)
    assert "secret-token" not in error.value.message


def test_a_field_of_another_type_is_damage_too_and_one_of_a_newer_version_is_none(tmp_path: Path) -> None:
    path = tmp_path / "logins.json"
    for changes, is_good in (({"access_token": 7}, False), ({"expires_at": "soon"}, False), ({"newer": 1}, True)):
        path.write_text(json.dumps({"logins": [{**vars(LOGIN), **changes}]}))
        path.chmod(0o600)
        if is_good:
            assert Logins(path).find("staging", ENDPOINT) == LOGIN
        else:
            with pytest.raises(InvalidInput, match="is damaged"):
                Logins(path).find("staging", ENDPOINT)


class Answers:
    """A provider that answers refreshes as a test says, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, outcome: Tokens | Exception) -> None:
        self.asked: list[str] = []
        answers = self

        class Provider:
            def __init__(self, issuer: str, client_id: str, *, timeout: float) -> None:
                assert (issuer, client_id) == (LOGIN.issuer, LOGIN.client_id)

            def refresh(self, refresh_token: str) -> Tokens:
                answers.asked.append(refresh_token)
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome

        monkeypatch.setattr(logins, "Provider", Provider)


NEW = Tokens(access_token="access-2", refresh_token="refresh-2", expires_in=600.0)


@pytest.mark.parametrize(("now", "refreshes"), [(900.0, 0), (984.0, 0), (986.0, 1), (5000.0, 1)])
def test_a_token_is_refreshed_shortly_before_it_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: float, refreshes: int
) -> None:
    answers = Answers(monkeypatch, NEW)
    stored = kept(tmp_path / "logins.json", LOGIN)
    token = LoginToken(stored, LOGIN, clock=lambda: now)
    assert [token(), token()] == [f"access-{1 + refreshes}"] * 2
    assert answers.asked == ["refresh-1"] * refreshes
    if refreshes:
        assert stored.find("staging", ENDPOINT) == changed(
            access_token="access-2", refresh_token="refresh-2", expires_at=now + 600
        )


def test_a_provider_may_leave_the_refresh_token_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Answers(monkeypatch, Tokens("access-2", None, None))
    stored = kept(tmp_path / "logins.json", LOGIN)
    assert LoginToken(stored, LOGIN, clock=lambda: 2000.0)() == "access-2"
    assert stored.find("staging", ENDPOINT) == changed(access_token="access-2", expires_at=None)


def test_what_another_command_refreshed_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(monkeypatch, NEW)
    stored = kept(tmp_path / "logins.json", changed(access_token="access-9", expires_at=5000.0))
    assert LoginToken(stored, LOGIN, clock=lambda: 2000.0)() == "access-9"
    assert answers.asked == []


def test_a_login_that_was_ended_meanwhile_is_no_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Answers(monkeypatch, NEW)
    with pytest.raises(Unauthenticated, match=r"ended meanwhile\. Run `rainbowctl login` again"):
        LoginToken(Logins(tmp_path / "logins.json"), LOGIN, clock=lambda: 2000.0)()


@pytest.mark.parametrize("outcome", [Unreachable("It is down."), LoginRefused("Over.", reason="invalid_grant")])
def test_a_token_that_cannot_be_refreshed_is_used_while_it_is_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Exception
) -> None:
    Answers(monkeypatch, outcome)
    stored = kept(tmp_path / "logins.json", LOGIN)
    assert LoginToken(stored, LOGIN, clock=lambda: 990.0)() == "access-1"
    expected = Unreachable if isinstance(outcome, Unreachable) else Unauthenticated
    with pytest.raises(expected, match="It is down" if expected is Unreachable else "Run `rainbowctl login` again"):
        LoginToken(stored, LOGIN, clock=lambda: 1001.0)()
    assert stored.find("staging", ENDPOINT) == LOGIN


def test_a_login_without_a_refresh_token_ends_with_its_token(tmp_path: Path) -> None:
    login = changed(refresh_token=None)
    stored = kept(tmp_path / "logins.json", login)
    assert LoginToken(stored, login, clock=lambda: 990.0)() == "access-1"
    with pytest.raises(Unauthenticated, match=r"has expired\. Run `rainbowctl login` again"):
        LoginToken(stored, login, clock=lambda: 1001.0)()


def test_a_login_is_of_the_context_and_endpoint_in_use_and_a_given_token_wins(tmp_path: Path) -> None:
    config = tmp_path / "rainbow/config.yaml"
    config.parent.mkdir()
    config.write_text(f"contexts: {{staging: {{endpoint: {ENDPOINT}}}, other: {{endpoint: {ENDPOINT}}}}}\n")
    kept(tmp_path / "rainbow/logins.json", changed(expires_at=None))
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    settings = load_settings({"context": "staging"}, environ)
    assert settings.logins_file == tmp_path / "rainbow/logins.json"
    assert find_login(settings) == changed(expires_at=None)
    token = login_token(settings, timeout=5.0)
    assert token is not None
    assert token() == "access-1"
    for typed, variables in (
        ({"context": "other"}, {}),
        ({}, {"RAINBOW_ENDPOINT": ENDPOINT}),
        ({"context": "staging", "endpoint": "https://elsewhere.example.org"}, {}),
        ({"context": "staging"}, {"RAINBOW_TOKEN": "given"}),
        ({"context": "staging", "token_file": "given"}, {}),
    ):
        assert find_login(load_settings(typed, {**environ, **variables})) is None
