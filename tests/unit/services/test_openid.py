"""OpenID tokens: which are accepted, whom they prove, and why the others are refused."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest

from admin.core.identities import Identity, Proof
from admin.errors import ProviderUnavailable, Unauthenticated
from admin.services.openid import ALGORITHMS, MOST_CHARACTERS, Verifier
from admin.services.openid_keys import FRESH_SECONDS, ProviderKeys
from tests.support.openid_tokens import (
    AUDIENCE,
    ISSUER,
    SigningKey,
    claims,
    ec_key,
    ed25519_key,
    openid,
    part,
    rsa_key,
    sign_with_secret,
)
from tests.support.waiting import wait_until

KEY = ec_key("first")


class Published:
    """What a provider publishes, which a test changes."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.keys = list(keys)
        self.now = 0.0

    def fetch(self, url: str) -> dict[str, Any]:
        is_discovery = url.endswith("/.well-known/openid-configuration")
        return {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/jwks"} if is_discovery else {"keys": self.keys}

    def verifier(self, **changes: Any) -> Verifier:
        keys = ProviderKeys(ISSUER, fetch=self.fetch, monotonic=lambda: self.now)
        return Verifier(openid(**changes), keys)


def verifier(**changes: Any) -> Verifier:
    return Published(KEY.public_jwk()).verifier(**changes)


def refusal(token: str, **changes: Any) -> str:
    """Why a token is refused; nothing of the token is in it, nor in what a traceback would show."""
    with pytest.raises(Unauthenticated) as caught:
        verifier(**changes).identify(token)
    assert not [text for text in token.split(".") if len(text) > 8 and text in caught.value.message]
    assert caught.value.__cause__ is None
    return caught.value.message


def unsigned(header: dict[str, Any], payload: Any) -> str:
    return f"{part(header)}.{part(payload)}."


def test_a_good_token_proves_its_user_and_groups() -> None:
    token = KEY.sign(claims(groups=["ml", "search"]))
    assert verifier().identify(token) == Identity(user="ana", groups=frozenset({"ml", "search"}), proof=Proof.OPENID)


def test_a_token_says_when_it_was_issued_or_else_when_it_ends() -> None:
    dated, undated = claims(), claims(iat=None)
    issued = [verifier().identify(KEY.sign(said)).issued_at for said in (dated, undated)]
    assert issued == [float(dated["iat"]), float(undated["exp"])]


def test_the_name_of_a_login_stays_when_its_tokens_are_refreshed_and_is_no_part_of_them() -> None:
    def login_of(**more: Any) -> str:
        token = KEY.sign(claims(**more))
        name = verifier().identify(token).token or ""
        assert name
        assert name not in token
        return name

    assert login_of(sid="1", jti="a") == login_of(sid="1", jti="b") != login_of(sid="2", jti="a")
    assert login_of(auth_time=1, jti="a") == login_of(auth_time=1, jti="b") != login_of(auth_time=2, jti="b")
    assert login_of(jti="a") != login_of(jti="b")
    assert login_of(sid="1", sub="bob") != login_of(sid="1")


MAKERS: dict[str, Callable[[], SigningKey]] = {
    "RS256": lambda: rsa_key("r"),
    "PS256": lambda: rsa_key("p", "PS256"),
    "ES256": lambda: ec_key("e"),
    "EdDSA": lambda: ed25519_key("d"),
}


@pytest.mark.parametrize("algorithm", MAKERS)
@pytest.mark.parametrize("says_algorithm", [True, False])
def test_every_kind_of_public_key_will_do(algorithm: str, says_algorithm: bool) -> None:
    key = MAKERS[algorithm]()
    published = Published(key.public_jwk() if says_algorithm else key.public_jwk(alg=None))
    assert published.verifier().identify(key.sign(claims())).user == "ana"


def test_an_audience_among_others_will_do() -> None:
    assert verifier().identify(KEY.sign(claims(aud=["other", AUDIENCE]))).user == "ana"


@pytest.mark.parametrize("audience", ["other", ["other"], [], "", None, f"{AUDIENCE}/", [7], {"a": 1}])
def test_a_token_for_others_is_refused(audience: Any) -> None:
    reason = refusal(KEY.sign(claims(aud=audience)))
    assert f"its audience must be '{AUDIENCE}'" in reason or "no claim 'aud'" in reason


@pytest.mark.parametrize("issuer", ["https://other.example.org", f"{ISSUER}/", None, 7, [ISSUER]])
def test_a_token_of_another_issuer_is_refused(issuer: Any) -> None:
    payload = {**claims(), "iss": issuer}
    assert f"not of the issuer {ISSUER}" in refusal(KEY.sign({k: v for k, v in payload.items() if v is not None}))


def test_times_have_a_small_leeway() -> None:
    now = int(time.time())
    for good in ({"exp": now - 20}, {"nbf": now + 20}, {"iat": now + 20}):
        assert verifier().identify(KEY.sign(claims(**good))).user == "ana"
    assert "has expired" in refusal(KEY.sign(claims(exp=now - 40)))
    assert "not valid yet" in refusal(KEY.sign(claims(nbf=now + 60)))
    assert "not valid yet" in refusal(KEY.sign(claims(iat=now + 60)))
    assert "has expired" in refusal(KEY.sign(claims(exp=now - 2)), leeway_seconds=0)


@pytest.mark.parametrize("exp", [None, "soon", [1]])
def test_a_token_that_never_expires_is_refused(exp: Any) -> None:
    assert refusal(KEY.sign(claims(exp=exp)))


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "HS256", "HS512", "XX", 7, ["RS256"], None])
def test_a_token_that_is_signed_with_no_public_key_is_refused(algorithm: Any) -> None:
    header = {"kid": "first", "typ": "JWT", **({} if algorithm is None else {"alg": algorithm})}
    assert "an algorithm of public keys" in refusal(unsigned(header, claims()))


def test_the_public_key_is_no_secret_to_sign_with() -> None:
    """The classic confusion: a token signed by HMAC with the published key as its secret."""
    key = rsa_key("r")
    with pytest.raises(Unauthenticated, match="an algorithm of public keys"):
        Published(key.public_jwk()).verifier().identify(sign_with_secret(claims(), key))


def test_a_token_with_another_algorithm_than_its_key_says_is_refused() -> None:
    key = rsa_key("r")
    token = jwt.encode(claims(), key.private, "PS256", headers={"kid": "r"})
    with pytest.raises(Unauthenticated, match="another algorithm"):
        Published(key.public_jwk()).verifier().identify(token)
    other_type = ec_key("e").sign(claims(), kid="r")
    with pytest.raises(Unauthenticated, match="another algorithm"):
        Published(key.public_jwk(alg=None)).verifier().identify(other_type)


def test_a_wrong_signature_is_refused() -> None:
    forged = SigningKey(id="first", algorithm="ES256", private=ec_key("other").private).sign(claims())
    assert "signature of the token is wrong" in refusal(forged)
    head, payload, signature = KEY.sign(claims()).split(".")
    assert "signature of the token is wrong" in refusal(f"{head}.{part(claims(sub='root'))}.{signature}")
    assert refusal(f"{head}.{payload}.")


def test_a_token_with_an_unknown_key_is_refused() -> None:
    assert f"a key that {ISSUER} does not publish" in refusal(ec_key("unknown").sign(claims()))


@pytest.mark.parametrize(
    "token", ["", "x", "..", "a.b.c", "a.b.c.d.e", "rbu-0a0a0a0a-secret", "ey" * 400, "é.é.é", unsigned({}, 7)]
)
def test_what_is_no_token_is_refused(token: str) -> None:
    assert refusal(token)


def test_a_payload_that_is_too_deep_to_read_is_refused() -> None:
    head, _, signature = KEY.sign(claims()).split(".")
    deep = base64.urlsafe_b64encode(b'{"a":' + b"[" * 10_000).rstrip(b"=").decode()
    assert "no JSON Web Token" in refusal(f"{head}.{deep}.{signature}")


@pytest.mark.parametrize("exp", [float("inf"), float("nan"), -1, True])
def test_a_time_that_is_none_is_refused(exp: float) -> None:
    assert refusal(KEY.sign(claims(exp=exp)))


def test_a_token_of_a_megabyte_is_refused_unread() -> None:
    assert f"more than {MOST_CHARACTERS} characters" in refusal("x" * 1024 * 1024)
    assert f"more than {MOST_CHARACTERS} characters" in refusal(KEY.sign(claims(groups=["g" * 100] * 400)))


def test_users_and_groups_come_from_the_configured_claims() -> None:
    token = KEY.sign(claims(email="ana@example.org", realm_access={"roles": ["ml"]}, **{"a.b": "x"}))
    named = verifier(user_claim="email", groups_claim="realm_access.roles").identify(token)
    assert (named.user, named.groups) == ("ana@example.org", frozenset({"ml"}))
    assert verifier(groups_claim="a.b").identify(token).groups == {"x"}


@pytest.mark.parametrize("groups", [None, 7, {}, [], [7, "", "x" * 256, "a\nb"], ""])
def test_what_is_no_group_is_left_out(groups: Any) -> None:
    assert verifier().identify(KEY.sign(claims(groups=groups))).groups == frozenset()


@pytest.mark.parametrize(
    "user",
    ["", "a b", "a/b", "cluster/a", "x" * 129, "é", "a\nb", ".", "..", "anonymous", "unknown", "shared-token"],
)
def test_a_name_that_no_user_has_is_refused(user: str) -> None:
    assert "no name of a user" in refusal(KEY.sign(claims(preferred_username=user)), user_claim="preferred_username")


@pytest.mark.parametrize("user", [None, 7, ["ana"], {"name": "ana"}])
def test_a_token_without_a_user_is_refused(user: Any) -> None:
    assert "openid.userClaim" in refusal(KEY.sign(claims(name=user)), user_claim="name")


def test_a_mail_address_that_is_not_verified_names_nobody() -> None:
    token = KEY.sign(claims(email="root@example.org", email_verified=False))
    assert "email_verified" in refusal(token, user_claim="email")
    assert verifier().identify(token).user == "ana"


def test_a_verified_token_is_known_until_it_expires() -> None:
    published = Published(KEY.public_jwk())
    keys = ProviderKeys(ISSUER, fetch=published.fetch, monotonic=lambda: published.now)
    now = [time.time()]
    checking = Verifier(openid(), keys, clock=lambda: now[0])
    token = KEY.sign(claims())
    identity = checking.identify(token)
    assert checking.identify(token) is identity
    now[0] += 3600  # then it is read again, as any other
    assert checking.identify(token) is not identity


def test_a_key_that_the_provider_takes_away_ends_its_tokens() -> None:
    published = Published(KEY.public_jwk())
    checking = published.verifier()
    token = KEY.sign(claims())
    assert checking.identify(token).user == "ana"
    second = ec_key("second")
    published.keys = [second.public_jwk()]
    published.now += 60
    assert checking.identify(token).user == "ana"  # nothing has shown yet that the keys are others
    assert checking.identify(second.sign(claims(sub="ben"))).user == "ben"
    with pytest.raises(Unauthenticated, match="does not publish"):
        checking.identify(token)


def test_a_key_that_the_provider_takes_away_ends_its_tokens_though_no_other_ones_arrive() -> None:
    published = Published(KEY.public_jwk(), ec_key("second").public_jwk())
    checking = published.verifier()
    token = KEY.sign(claims())
    identity = checking.identify(token)
    published.keys = [KEY.public_jwk()]
    published.now += FRESH_SECONDS + 1
    assert checking.identify(token) is identity
    published.keys = [ec_key("second").public_jwk()]
    published.now += FRESH_SECONDS + 1

    def is_refused() -> bool:
        try:
            checking.identify(token)
        except Unauthenticated:
            return True
        return False

    wait_until(is_refused)


def test_a_provider_that_does_not_answer_is_no_fault_of_the_token() -> None:
    published = Published()
    with pytest.raises(ProviderUnavailable):
        published.verifier().identify(KEY.sign(claims()))


def test_no_algorithm_is_symmetric() -> None:
    assert not [algorithm for algorithm in ALGORITHMS if algorithm.startswith(("HS", "none"))]
