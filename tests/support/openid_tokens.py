"""Tokens as an OpenID provider signs them, right ones and wrong ones."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from admin.configuration import OpenId

ISSUER = "https://login.example.org/realms/platform"
AUDIENCE = "https://rainbow.example.org"

_PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def openid(**changes: Any) -> OpenId:
    """The configuration of a provider."""
    settings: dict[str, Any] = {
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "client_id": "rainbowctl",
        "scopes": ["openid"],
        "user_claim": "sub",
        "groups_claim": "groups",
        "leeway_seconds": 30,
    }
    return OpenId(**{**settings, **changes})


@dataclass(frozen=True, kw_only=True)
class SigningKey:
    """A key of a provider."""

    id: str
    algorithm: str
    private: _PrivateKey

    def private_jwk(self) -> dict[str, Any]:
        """The whole key, as a provider reads it."""
        return {**self._jwk(self.private), "kid": self.id, "use": "sig", "alg": self.algorithm}

    def public_jwk(self, **changes: Any) -> dict[str, Any]:
        """What a provider publishes of it; what is None is left out."""
        published = {**self._jwk(self.private.public_key()), "kid": self.id, "use": "sig", "alg": self.algorithm}
        return {name: value for name, value in {**published, **changes}.items() if value is not None}

    def sign(self, claims: Mapping[str, Any], **headers: Any) -> str:
        """A token; its claims may be such as no provider makes them."""
        payload = json.dumps(claims).encode()
        return jwt.PyJWS().encode(payload, self.private, self.algorithm, headers={"kid": self.id, **headers})

    def _jwk(self, key: Any) -> dict[str, Any]:
        text: dict[str, Any] = jwt.get_algorithm_by_name(self.algorithm).to_jwk(key, as_dict=True)
        return {name: value for name, value in text.items() if name != "key_ops"}


@cache
def rsa_key(id: str, algorithm: str = "RS256") -> SigningKey:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return SigningKey(id=id, algorithm=algorithm, private=private)


@cache
def ec_key(id: str) -> SigningKey:
    return SigningKey(id=id, algorithm="ES256", private=ec.generate_private_key(ec.SECP256R1()))


@cache
def ed25519_key(id: str) -> SigningKey:
    return SigningKey(id=id, algorithm="EdDSA", private=ed25519.Ed25519PrivateKey.generate())


def claims(**changes: Any) -> dict[str, Any]:
    """The claims of a good token of ana's; what is None is left out."""
    now = int(time.time())
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ana", "iat": now, "exp": now + 600}
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def part(document: Any) -> str:
    """A header or payload as tokens have it."""
    return _base64(json.dumps(document).encode())


def sign_with_secret(claims: Mapping[str, Any], key: SigningKey) -> str:
    """A token that is signed with a published key as if that were a secret; libraries refuse to make one."""
    signed = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': key.id})}.{part(claims)}"
    secret = json.dumps(key.public_jwk()).encode()
    return f"{signed}.{_base64(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
