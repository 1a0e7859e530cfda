"""Sessions of the console."""

from __future__ import annotations

from typing import Annotated

from marshmallow import fields
from msgspec import Meta

from admin.core.identities import Proof
from admin.messages.requests import SCOPE_KEY, PageQuery
from admin.messages.shared import Answer, SeenAnswer, Time, one_of
from admin.services.sessions import name_of
from admin.store.sessions import Session


class SessionsQuery(PageQuery):
    user = fields.String(validate=SCOPE_KEY, metadata={"description": "Only those of this user."})


class SessionAnswer(Answer):
    """Somebody who is signed in at the console with a browser."""

    user: str
    id: Annotated[str, Meta(description="By which it is ended; it proves nobody.")]
    proof: Annotated[str, one_of(Proof.SHARED_TOKEN.value, Proof.TOKEN.value, Proof.OPENID.value)]
    token: Annotated[
        str | None, Meta(description="The prefix of the token that it began and ends with, or the name of a login.")
    ] = None
    created_at: Time
    last_used_at: Annotated[Time | None, Meta(description="To the minute.")] = None
    expires_at: Time
    address: Annotated[str | None, Meta(description="From which it began.")] = None
    browser: Annotated[str | None, Meta(description="With which it began, as that names itself.")] = None

    @classmethod
    def from_session(cls, session: Session) -> SessionAnswer:
        return cls.from_attributes(session, user=session.user_name, id=name_of(session.hash))


class SessionsAnswer(SeenAnswer):
    sessions: list[SessionAnswer]
    token: Annotated[str | None, Meta(description="Of the next page.")] = None


class SessionEndedAnswer(Answer):
    session: SessionAnswer
