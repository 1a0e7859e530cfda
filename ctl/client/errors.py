"""
Everything that can go wrong in rainbowctl, and the exit status it ends with.

* RainbowError                     1
  * ClientError                    1   raised by `ctl.client.Client`
    * Unreachable                  6   no connection, or the admin is not ready
      * Unanswered                 6   sent, but no answer came: it may have been carried out
    * InvalidRequest               2   the admin refused the request as it stands
    * Unauthenticated              4   no token, or a wrong one
      * Forbidden                  4   a good token without the right
    * NotFound                     3
    * Conflict                     5   someone else changed it first, or it exists already
    * ServerError                  1   the admin failed, or what answered is no admin
  * InvalidInput                   2   a flag, a name or a setting that cannot be right
    * UnwritableBody               2   a value that JSON cannot represent
    * InvalidFile                  2   a file with problems, each with its position
  * NothingSet                     3   no value at this scope, nor inherited
  * Declined                       1   the answer at the prompt was no
  * WarningsFound                  7   there were warnings, and --strict asked to fail on them
  * AlreadyCreated                 8   an execution of that name and request was there before
  * EndedOtherwise                 9   what was waited for did not come about
  * Interrupted                  130   Ctrl-C

The docstring of a class is its default message, so every error has a sentence that says what to do next.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

#: Exit statuses, as `rainbowctl --help` lists them.
EXIT_CODES: dict[int, str] = {
    0: "done",
    1: "failed: an error of the admin, or the answer at the prompt was no",
    2: "usage: a wrong flag, name or file",
    3: "not found, or not set",
    4: "not authenticated, or not allowed",
    5: "conflict: someone else changed it, or it exists already",
    6: "the admin cannot be reached",
    7: "there were warnings (only with --strict)",
    8: "the same execution exists already: nothing was started",
    9: "the execution ended otherwise than waited for, or the timeout was over",
    130: "interrupted",
}

#: What a shell reports for a program ended by SIGPIPE: the reader of our output went away.
EXIT_BROKEN_PIPE = 141


class RainbowError(Exception):
    """Something went wrong."""

    exit_code = 1
    name = "failed"
    code = 2

    def __init__(self, message: str | None = None, *, details: Sequence[dict[str, Any]] = (), hint: str = "") -> None:
        self.message = message or inspect.cleandoc(self.__doc__ or "").split("\n\n")[0].replace("\n", " ")
        self.details = list(details)
        self.hint = hint  #: where to read on
        self.request_id: str | None = None
        super().__init__(self.message)

    def lines(self) -> list[str]:
        """The message, and one indented line for each detail that it does not contain."""
        lines = [detail_line(detail) for detail in self.details if not self._is_repeated(detail)]
        return [self.message, *(f"  {line}" for line in [*lines, self.hint] if line)]

    def in_one_line(self) -> str:
        """The same, for a cell of a table."""
        return "; ".join(line.strip().rstrip(".") for line in self.lines())

    def _is_repeated(self, detail: dict[str, Any]) -> bool:
        """Whether the message contains the detail, as the admin's does where there is only one."""
        words = list(detail.get("closest") or [])
        if len(self.details) > 1:
            words += [detail.get("field") or "", detail.get("reason") or ""]
        return "position" not in detail and all(str(word).rstrip(".") in self.message for word in words)

    def document(self) -> dict[str, Any]:
        """The error as `-o json` prints it."""
        body: dict[str, Any] = {
            "code": self.code,
            "name": self.name,
            "message": self.message,
            "details": self.details,
            "exit_code": self.exit_code,
        }
        if self.request_id:
            body["request_id"] = self.request_id
        return {"error": body}


class ClientError(RainbowError):
    """
    The admin did not do what was asked.

        try:
            client.put_attribute("execution-cluster-label", scope, {"value": "gpu"}, if_match=7)
        except Conflict as error:
            print(error.details)
        except ClientError as error:
            print(error.status, error.name, error.message, error.request_id)
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        status: int | None = None,
        name: str | None = None,
        code: int | None = None,
        details: Sequence[dict[str, Any]] = (),
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, details=details)
        self.status = status  #: HTTP status, None when there was no answer
        self.name = name or self.name  #: the stable name of the error, for programs
        self.code = self.code if code is None else code  #: gRPC number
        self.request_id = request_id
        self.retry_after: float | None = None  #: seconds to wait before the next try, where the admin asks for it

    def lines(self) -> list[str]:
        lines = super().lines()
        # The request id helps only in the admin's log, so it is shown where that is the next step.
        if self.request_id and (self.status or 0) >= 500:
            lines.append(f"  request id: {self.request_id}")
        return lines


class Unreachable(ClientError):
    """The admin cannot be reached. Check that it runs, and the endpoint that `rainbowctl config view` shows."""

    exit_code = 6
    name = "unreachable"
    code = 14


class Unanswered(Unreachable):
    """The request was sent but no answer came: it may have been carried out. Look with `get` before repeating it."""

    name = "unanswered"
    code = 4


class InvalidRequest(ClientError):
    """The admin refused the request."""

    exit_code = 2
    name = "invalid_request"
    code = 3


class Unauthenticated(ClientError):
    """The admin requires a token. Give one with --token-file, RAINBOW_TOKEN or RAINBOW_TOKEN_FILE."""

    exit_code = 4
    name = "unauthenticated"
    code = 16


class Forbidden(Unauthenticated):
    """The token is valid, but does not allow this."""

    name = "forbidden"
    code = 7


class NotFound(ClientError):
    """Not found."""

    exit_code = 3
    name = "not_found"
    code = 5


class Conflict(ClientError):
    """Someone else changed it in the meantime. Look at it again, then repeat the change."""

    exit_code = 5
    name = "conflict"
    code = 10


class ServerError(ClientError):
    """The admin failed. Search its log for the request id."""

    name = "server_error"
    code = 13


class InvalidInput(RainbowError):
    """The input is invalid."""

    exit_code = 2
    name = "invalid_input"
    code = 3


class UnwritableBody(InvalidInput):
    """JSON cannot represent infinite numbers or NaN: give a finite number."""


class InvalidFile(InvalidInput):
    """The file cannot be used."""

    name = "invalid_file"


class NothingSet(RainbowError):
    """Nothing is set there, and nothing is inherited."""

    exit_code = 3
    name = "nothing_set"
    code = 5


class Declined(RainbowError):
    """Not confirmed: nothing was changed."""

    name = "declined"
    code = 1


class WarningsFound(RainbowError):
    """There were warnings, and --strict asks to fail on them."""

    exit_code = 7
    name = "warnings_found"
    code = 9


class AlreadyCreated(RainbowError):
    """The same execution exists already: nothing was started."""

    exit_code = 8
    name = "already_created"
    code = 6


class EndedOtherwise(RainbowError):
    """The condition was not met."""

    exit_code = 9
    name = "ended_otherwise"
    code = 9


class Interrupted(RainbowError):
    """Interrupted."""

    exit_code = 130
    name = "interrupted"
    code = 1


def detail_line(detail: dict[str, Any]) -> str:
    """One detail of an error as text; empty if there is nothing to show."""
    reason = str(detail.get("reason", ""))
    line = ": ".join(str(part) for part in (detail.get("position"), detail.get("field"), reason) if part)
    closest = [str(word) for word in detail.get("closest") or []]
    if closest and not any(word in reason for word in closest):
        line += f"{' ' if line else ''}(did you mean {' or '.join(closest)}?)"
    return line
