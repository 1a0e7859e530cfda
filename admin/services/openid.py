"""OpenID: the user whom an access token proves, verified with the provider's public keys."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

import jwt

from admin.configuration import OpenId
from admin.core.identities import Identity, Proof
from admin.core.names import USER_NAME_RULE, is_user_name
from admin.core.users import RESERVED
from admin.errors import Unauthenticated
from admin.services.openid_keys import Key, ProviderKeys

#: A longer token is refused unread; those of providers with hundreds of groups in them have half of that.
MOST_CHARACTERS = 16 * 1024
#: The algorithms of public keys. With a symmetric one, or with none, anybody could sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")

#: How many verified tokens a worker remembers.
_MOST_VERIFIED = 10_000
_LOGIN = "Run `rainbowctl login` again."

Claims = Mapping[str, Any]


class _Verified(NamedTuple):
    """A token that was verified."""

    identity: Identity
    until: float  #: seconds since the epoch
    key_id: str | None
    key: Key  #: that it is signed with, and that the provider must still publish


class Verifier:
    """Gives the user of an access token; a token that was verified once is known until it expires."""

    def __init__(
        self, openid: OpenId, keys: ProviderKeys | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._openid = openid
        self._keys = keys or ProviderKeys(openid.issuer)
        self._clock = clock
        self._verified: dict[bytes, _Verified] = {}  #: by the hash of the token
        self._lock = threading.Lock()

    def identify(self, token: str) -> Identity:
        """The user of a token; Unauthenticated with the reason where it proves none.

        ProviderUnavailable or Busy where that cannot be known now. No message holds a part of the token.
        """
        if len(token) > MOST_CHARACTERS:
            _refuse(f"The token has more than {MOST_CHARACTERS} characters.")
        hashed = hashlib.sha256(token.encode()).digest()
        known = self._verified.get(hashed)
        if known is not None and known.until > self._clock() and self._keys.known(known.key_id) == known.key:
            return known.identity
        verified = self._verify(token)
        self._remember(hashed, verified)
        return verified.identity

    def _remember(self, hashed: bytes, verified: _Verified) -> None:
        with self._lock:
            self._verified.pop(hashed, None)
            if len(self._verified) >= _MOST_VERIFIED:
                del self._verified[next(iter(self._verified))]
            self._verified[hashed] = verified

    def _verify(self, token: str) -> _Verified:
        """Whom a token proves whose signature, issuer, audience and times are right."""
        with self._explained():
            # What it says of itself is looked at first only to refuse it early, and to name the reason.
            unverified = jwt.decode_complete(token, options={"verify_signature": False})
        algorithm, key_id = unverified["header"].get("alg"), unverified["header"].get("kid")
        if algorithm not in ALGORITHMS:
            _refuse(f"The token is not signed with an algorithm of public keys: use one of {', '.join(ALGORITHMS)}.")
        if unverified["payload"].get("iss") != self._openid.issuer:
            _refuse(f"The token is not of the issuer {self._openid.issuer}.")
        key = self._keys.find(key_id)
        if key is None:
            _refuse(f"The token is signed with a key that {self._openid.issuer} does not publish. {_LOGIN}")
        claims = self._claims(token, algorithm, key)
        user, groups = self._user(claims), self._groups(claims)
        identity = Identity(
            user=user,
            groups=groups,
            proof=Proof.OPENID,
            token=_login_name(user, claims, token),
            # Those of one provider last equally long, so that the end of one that does not say it tells as much.
            issued_at=float(claims.get("iat") or claims["exp"]),
        )
        return _Verified(identity, int(claims["exp"]) + self._openid.leeway_seconds, key_id, key)

    def _claims(self, token: str, algorithm: str, key: Key) -> Claims:
        with self._explained():
            return jwt.decode(
                token,
                # A key that says its algorithm is for no other one; PyJWT refuses one that does not fit its type.
                jwt.PyJWK(dict(key), None if "alg" in key else algorithm),
                algorithms=[algorithm],
                audience=self._openid.audience,
                issuer=self._openid.issuer,
                leeway=self._openid.leeway_seconds,
                options={"require": ["exp", "iss", "aud"]},
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns what the library refuses into an error of ours."""
        try:
            yield
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            # Without its cause: a traceback in the log must not hold the token either. What is not of the library's
            # own classes comes from what no provider writes, such as brackets thousands deep.
            raise Unauthenticated(self._reason(error)) from None

    def _reason(self, error: Exception) -> str:
        """Why a token is refused, in our words: some of the library's repeat what the token says."""
        match error:
            case jwt.ExpiredSignatureError():
                return f"The token has expired. {_LOGIN}"
            case jwt.ImmatureSignatureError():
                return "The token is not valid yet: compare the clocks of the admin and of the OpenID provider."
            case jwt.InvalidAudienceError():
                return f"The token is not for this admin: its audience must be '{self._openid.audience}'."
            case jwt.InvalidIssuerError():
                return f"The token is not of the issuer {self._openid.issuer}."
            case jwt.MissingRequiredClaimError():
                return f"The token has no claim '{error.claim}'."
            case jwt.InvalidSignatureError():
                return f"The signature of the token is wrong. {_LOGIN}"
            case jwt.InvalidAlgorithmError() | jwt.InvalidKeyError() | jwt.PyJWKError():
                return "The token is signed with another algorithm than its key is for."
        return f"The token is no JSON Web Token that is signed and complete. {_LOGIN}"

    def _user(self, claims: Claims) -> str:
        claim = self._openid.user_claim
        name = _claim(claims, claim)
        if not isinstance(name, str):
            _refuse(f"The token has no claim '{claim}' that names the user (openid.userClaim).")
        if not is_user_name(name) or name in RESERVED:
            _refuse(f"The claim '{claim}' of the token is no name of a user: it must be {USER_NAME_RULE}.")
        if claim == "email" and claims.get("email_verified") is False:
            _refuse("The mail address in the token is not verified (email_verified). Verify it at the OpenID provider.")
        return name

    def _groups(self, claims: Claims) -> frozenset[str]:
        """The groups that a token names; what can be no name of a group is left out, for nothing is granted to it."""
        groups = _claim(claims, self._openid.groups_claim)
        names = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        return frozenset(name for name in names if _may_name_group(name))


def _login_name(user: str, claims: Claims, token: str) -> str:
    """A name for the login that a token is of: the same for tokens that were refreshed, if they say which it is."""
    login = claims.get("sid") or claims.get("auth_time") or token
    return hashlib.sha256(f"{user} {login}".encode()).hexdigest()[:16]


def _may_name_group(name: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= 255 and name.isprintable()


def _claim(claims: Claims, name: str) -> Any:
    """A claim by its name; one within another by a path such as realm_access.roles."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _refuse(reason: str) -> NoReturn:
    raise Unauthenticated(reason)
