"""Tokens of a real OpenID provider: who they prove, and which ones the admin refuses."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.core.grants import Grant, Grantee
from admin.core.identities import Identity, Proof
from admin.errors import ProviderUnavailable, Unauthenticated
from admin.services import grants, users
from admin.services.changeable.base import ChangeOptions
from admin.services.openid import Verifier
from admin.services.openid_keys import FRESH_SECONDS, PAUSE_SECONDS, ProviderKeys
from ctl.client.errors import LoginRefused
from ctl.client.openid import Provider
from tests.conftest import MakeApp
from tests.support.apps import context_of
from tests.support.openid_provider import CLIENT, OpenIdProvider
from tests.support.openid_tokens import AUDIENCE, claims, openid, part, rsa_key, sign_with_secret
from tests.support.waiting import wait_until

ANA = Identity(user="ana", groups=frozenset({"ml", "search"}), proof=Proof.OPENID)


class Clock:
    """The monotonic clock of a worker, which a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def verifier(provider: OpenIdProvider, clock: Clock | None = None) -> Verifier:
    keys = ProviderKeys(provider.issuer, monotonic=clock or Clock())
    return Verifier(openid(issuer=provider.issuer), keys)


def make_api(make_app: MakeApp, provider: OpenIdProvider) -> FlaskClient:
    sections = {"issuer": provider.issuer, "audience": AUDIENCE, "clientId": CLIENT}
    client: FlaskClient = make_app(openid=sections).test_client()
    return client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_token_of_the_provider_proves_its_user_who_is_recorded(
    make_app: MakeApp, openid_provider: OpenIdProvider
) -> None:
    api = make_api(make_app, openid_provider)
    submitter = Grant(role="submitter", grantee=Grantee("group", "ml"))
    grants.create_grant(context_of(api.application), submitter, ChangeOptions())
    token = openid_provider.tokens().access_token
    request = {"project": "flytesnacks", "domain": "development", "spec": {"job": {"command": ["true"]}}}
    refused = api.post("/api/v1/executions", json=request)
    assert (refused.status_code, "rainbowctl login" in refused.get_json()["message"]) == (401, True)
    created = api.post("/api/v1/executions", json=request, headers=bearer(token))
    execution = created.get_json()["execution"]
    assert (execution["created_by"], execution["created_proof"]) == ("ana", "openid")
    told = {"user": "ana", "groups": ["ml", "search"], "proof": "openid"}
    assert api.get("/api/v1/whoami", headers=bearer(token)).json == told
    assert verifier(openid_provider).identify(token) == ANA


def test_a_login_is_noted_once_and_without_its_token(make_app: MakeApp, openid_provider: OpenIdProvider) -> None:
    api = make_api(make_app, openid_provider)
    administrator = Grant(role="admin", grantee=Grantee("group", "ml"))
    grants.create_grant(context_of(api.application), administrator, ChangeOptions())
    token = openid_provider.tokens().access_token
    for address in ("192.0.2.7", "192.0.2.8", "192.0.2.7"):
        whoami = api.get("/api/v1/whoami", headers=bearer(token), environ_base={"REMOTE_ADDR": address})
        assert whoami.status_code == 200
    answer = api.get("/api/v1/audit", headers=bearer(token), environ_base={"REMOTE_ADDR": "192.0.2.8"})
    events = [
        (event["event"], event["address"], event["user"], event["proof"]) for event in answer.get_json()["events"]
    ]
    assert sorted(events) == [
        ("LOGIN", "192.0.2.7", "ana", "openid"),
        ("NEW_ADDRESS", "192.0.2.7", "ana", "openid"),
        ("NEW_ADDRESS", "192.0.2.8", "ana", "openid"),
    ]
    assert not [part for part in token.split(".") if part in answer.get_data(as_text=True)]


def test_who_acts_as_somebody_leaves_the_groups_of_the_provider_behind(
    make_app: MakeApp, openid_provider: OpenIdProvider
) -> None:
    api = make_api(make_app, openid_provider)
    context, options = context_of(api.application), ChangeOptions()
    grants.create_grant(context, Grant(role="admin", grantee=Grantee("group", "ml")), options)
    users.create_user(context, "bea", {}, options)
    headers = {**bearer(openid_provider.tokens().access_token), "Rainbow-As": "bea"}
    told = {"user": "bea", "groups": [], "proof": "openid", "administrator": "ana"}
    assert api.get("/api/v1/whoami", headers=headers).json == told
    assert api.get("/api/v1/users", headers=headers).status_code == 403


def test_where_to_log_in_is_told_without_a_token(make_app: MakeApp, openid_provider: OpenIdProvider) -> None:
    answer = make_api(make_app, openid_provider).get("/api/v1/openid")
    assert answer.json == {
        "issuer": openid_provider.issuer,
        "audience": AUDIENCE,
        "scopes": ["openid", "offline_access"],
        "client_id": CLIENT,
    }


def test_an_admin_without_a_provider_says_so(make_app: MakeApp) -> None:
    answer = make_app().test_client().get("/api/v1/openid")
    assert (answer.status_code, answer.get_json()["error"]) == (404, "no_provider")
    assert "--token-file" in answer.get_json()["message"]


def bad_tokens(provider: OpenIdProvider) -> dict[str, tuple[str, str]]:
    """Tokens that are signed with the provider's own key, or pretend to be, each with a word of its refusal."""
    key, now = provider.key, int(time.time())
    good = claims(iss=provider.issuer)
    head, payload, signature = key.sign(good).split(".")
    return {
        "no algorithm": (f"{part({'alg': 'none', 'kid': key.id})}.{payload}.", "algorithm of public keys"),
        "a symmetric algorithm": (sign_with_secret(good, key), "algorithm of public keys"),
        "another audience": (key.sign({**good, "aud": "https://other.example.org"}), "audience must be"),
        "the client as audience, as an ID token has it": (key.sign({**good, "aud": CLIENT}), "audience must be"),
        "another issuer": (key.sign({**good, "iss": "https://other.example.org"}), "not of the issuer"),
        "expired": (key.sign({**good, "exp": now - 60}), "has expired"),
        "a clock that is ahead": (key.sign({**good, "nbf": now + 120}), "not valid yet"),
        "another key of the same id": (rsa_key("another").sign(good, kid=key.id), "signature of the token is wrong"),
        "an unknown key": (rsa_key("another").sign(good), "does not publish"),
        "a changed payload": (f"{head}.{part({**good, 'sub': 'root'})}.{signature}", "signature of the token is wrong"),
        "no user": (key.sign({name: good[name] for name in good if name != "sub"}), "openid.userClaim"),
        "a name that nobody has": (key.sign({**good, "sub": "cluster/a"}), "no name of a user"),
        "a megabyte": (f"{'x' * 1024 * 1024}.y.z", "more than 16384 characters"),
        "no JSON in it": ("no.token.this", "no JSON Web Token"),
        "no token at all": ("not-a-token", "Run `rainbowctl login`"),
    }


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # no token is stored anywhere
def test_a_bad_token_is_refused_with_the_reason_and_without_a_trace_of_it(
    make_app: MakeApp, openid_provider: OpenIdProvider, caplog: pytest.LogCaptureFixture
) -> None:
    api = make_api(make_app, openid_provider)
    caplog.set_level(logging.DEBUG)
    assert api.get("/api/v1/kinds", headers=bearer(openid_provider.tokens().access_token)).status_code == 200
    refusals = {}
    for name, (token, word) in bad_tokens(openid_provider).items():
        answer = api.get("/api/v1/kinds", headers=bearer(token))
        refusals[name] = (answer.status_code, answer.get_json()["error"], word in answer.get_json()["message"])
        seen = answer.text + caplog.text + str([vars(record) for record in caplog.records])
        assert not [text for text in token.split(".") if len(text) > 12 and text in seen], name
    assert refusals == dict.fromkeys(refusals, (401, "unauthenticated", True))


def test_a_clock_that_differs_a_little_is_no_reason(openid_provider: OpenIdProvider) -> None:
    now = int(time.time())
    good = claims(iss=openid_provider.issuer)
    for times in ({"exp": now - 20}, {"nbf": now + 20, "iat": now + 20}):
        assert verifier(openid_provider).identify(openid_provider.key.sign({**good, **times})).user == "ana"


def test_a_token_ends_when_the_provider_said(openid_provider: OpenIdProvider) -> None:
    checking = Verifier(openid(issuer=openid_provider.issuer, leeway_seconds=0))
    openid_provider.restart(token_seconds=2)
    try:
        token = openid_provider.tokens().access_token
    finally:
        openid_provider.restart(token_seconds=600)

    def reason() -> str:
        try:
            return checking.identify(token).user
        except Unauthenticated as error:
            return error.message

    wait_until(lambda: reason() != "ana")
    assert "has expired" in reason()


def test_a_new_key_is_fetched_and_one_that_was_taken_away_ends(openid_provider: OpenIdProvider) -> None:
    clock = Clock()
    checking = verifier(openid_provider, clock)
    before = openid_provider.tokens().access_token
    assert checking.identify(before) == ANA
    openid_provider.restart(key=rsa_key("second"))
    after = openid_provider.tokens("ben").access_token
    with pytest.raises(Unauthenticated, match="does not publish"):  # the keys were fetched just now
        checking.identify(after)
    clock.now += PAUSE_SECONDS
    assert checking.identify(after).user == "ben"
    with pytest.raises(Unauthenticated, match="does not publish"):
        checking.identify(before)


def test_while_the_provider_is_down_tokens_go_on_working_until_they_expire(openid_provider: OpenIdProvider) -> None:
    clock = Clock()
    checking, fresh = verifier(openid_provider, clock), verifier(openid_provider, clock)
    known = openid_provider.tokens().access_token
    unseen = openid_provider.tokens("ben").access_token
    expired = openid_provider.key.sign(claims(iss=openid_provider.issuer, exp=int(time.time()) - 60))
    assert checking.identify(known) == ANA
    openid_provider.stop()
    try:
        for _ in range(3):
            clock.now += FRESH_SECONDS + 1
            assert checking.identify(known) == ANA
            assert checking.identify(unseen).user == "ben"
            with pytest.raises(Unauthenticated, match="has expired"):
                checking.identify(expired)
        with pytest.raises(ProviderUnavailable):  # this worker has never seen a key
            fresh.identify(known)
    finally:
        openid_provider.start()
    clock.now += PAUSE_SECONDS
    assert fresh.identify(known) == ANA


def test_a_login_is_refreshed_once_with_each_refresh_token_and_can_be_revoked(openid_provider: OpenIdProvider) -> None:
    provider = Provider(openid_provider.issuer, CLIENT)
    first = openid_provider.tokens()
    assert first.refresh_token is not None
    assert first.expires_in is not None
    second = provider.refresh(first.refresh_token)
    assert second.refresh_token is not None
    assert second.access_token != first.access_token
    assert verifier(openid_provider).identify(second.access_token) == ANA
    assert provider.revoke(second.refresh_token)
    for refresh_token in (first.refresh_token, second.refresh_token):
        with pytest.raises(LoginRefused) as refusal:
            provider.refresh(refresh_token)
        assert refusal.value.reason == "invalid_grant"


def test_a_device_login_that_is_denied_or_forgotten_is_refused(openid_provider: OpenIdProvider) -> None:
    provider = Provider(openid_provider.issuer, CLIENT)
    now = [0.0]
    waits: list[float] = []

    def wait(code: Any, sleep: Callable[[float], None]) -> LoginRefused:
        with pytest.raises(LoginRefused) as refusal:
            provider.wait_for_device(code, sleep=sleep, monotonic=lambda: now[0])
        return refusal.value

    def forget(seconds: float) -> None:
        waits.append(seconds)
        now[0] += 200

    refusal = wait(provider.begin_device_login(["openid"]), forget)
    assert (refusal.reason, set(waits)) == ("expired_token", {5.0})
    assert "not entered in time" in refusal.message


def test_a_client_that_the_provider_does_not_know_is_refused(openid_provider: OpenIdProvider) -> None:
    with pytest.raises(LoginRefused, match="does not know this client"):
        Provider(openid_provider.issuer, "other").begin_device_login(["openid"])
