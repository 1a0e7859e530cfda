"""
The calls of the client that are about who calls, and about tokens of users.

Users themselves are definitions: `client.create_definition("user", "ada", {})`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ctl.client.answers import Document
from ctl.client.calls.base import Calls, non_empty, resource_path


class UserCalls(Calls):
    """Part of the client; see `ctl.client.Client`."""

    def whoami(self) -> Document:
        """Who the admin takes the caller for: the `user`, its `groups`, and how that was proven (`proof`)."""
        with self._newer_path("It has no users: everybody is anonymous there."):
            return self._read("whoami", holding="groups")

    def user_tokens(self, user: str) -> list[Document]:
        """The tokens of a user, newest first, without their secrets."""
        return list(self._read(_tokens(user), holding="tokens")["tokens"])

    def all_user_tokens(self, *, unused: str | None = None) -> Iterator[Document]:
        """
        The tokens of every user that the caller may see, page by page, by user and prefix.

        With `unused`, such as `90d`, only good ones that were not used for so long and are older.
        """
        with self._newer_path("It lists the tokens of one user: name the user."):
            yield from self._pages("user_tokens", "tokens", non_empty({"unused": unused}))

    def create_user_token(
        self, user: str, name: str, *, expires: str | None = None, narrowed: Document | None = None
    ) -> Document:
        """
        A new `token`, which cannot be read again; it ends after `expires`, such as `90d`, or never.

        `narrowed` is what it is good for, of all that the user may do: a `role`, `permissions`, the keys of a
        scope, and `clusters`.
        """
        body = non_empty({"name": name, "expires": expires, **({"narrowed": narrowed} if narrowed else {})})
        with self._newer_parameter("narrowed", "Its tokens are as good as their users."):
            return self._write("POST", _tokens(user), body)

    def revoke_user_token(self, user: str, prefix: str) -> Document:
        """End a token at once; `changed` tells whether it counted until now."""
        return self._write("DELETE", resource_path(_tokens(user), token=prefix))

    def sessions(self, user: str | None = None) -> Iterator[Document]:
        """Who is signed in at the console, of a user or of all that the caller may see, page by page, by user."""
        with self._newer_path("It lists no sessions of its console."):
            yield from self._pages("sessions", "sessions", non_empty({"user": user}))

    def end_session(self, user: str, id: str) -> Document:
        """End a `session` of a user at once, which is answered as it was."""
        with self._newer_path("It ends no sessions of its console: they end with their tokens, or by themselves."):
            return self._write("DELETE", resource_path(f"{resource_path('users', user=user)}/sessions", session=id))


def _tokens(user: str) -> str:
    return f"{resource_path('users', user=user)}/tokens"
