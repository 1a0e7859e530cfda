"""Users who call an app with tokens of theirs."""

from __future__ import annotations

from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from admin.core.grants import Grant, Grantee
from admin.core.settings.scopes import PLATFORM, Scope
from admin.services import user_tokens
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.grants import grant_write
from admin.services.changeable.users import user_write
from admin.services.changes import make_change
from tests.support.apps import context_of
from tests.support.placing import API, ok


class Person:
    """Somebody who calls with a token, or with none."""

    def __init__(self, client: FlaskClient, token: str | None = None) -> None:
        self.client = client
        self.token = token
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        return self.client.open(f"{API}/{path}", method=method, json=body, headers={**self.headers, **headers})

    def get(self, path: str) -> Any:
        return ok(self.call("GET", path))

    def do(self, method: str, path: str, body: Any = None) -> Any:
        return ok(self.call(method, path, body))


def made_user(app: Flask, name: str = "ada", *, role: str = "admin", scope: Scope = PLATFORM, **payload: Any) -> Person:
    """A new user with a token, who may do everything, or what a role may at a scope."""
    context = context_of(app)
    grant = Grant(role=role, grantee=Grantee("user", name), scope=scope)
    make_change(context, [user_write(name, payload), grant_write(grant)], ChangeOptions())
    return Person(app.test_client(), user_tokens.create_token(context, name, "laptop").token)
