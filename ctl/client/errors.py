"""
Everything that can go wrong in rainbowctl, and the exit status it ends with.

The docstring of a class is its default message, so every error has a sentence that says what to do next.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

#: Exit statuses, as `rainbowctl --help` lists them.
EXIT_CODES: dict[int, str] = {
    0: "done",
    1: "failed: an error of the admin, an output that was cut, or the answer at the prompt was no",
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

    name = "failed"  #: stable, for programs
    code = 2  #: gRPC's number
    exit_code = 1  #: of rainbowctl, one of `EXIT_CODES`

    def __init_subclass__(
        cls, *, name: str | None = None, code: int | None = None, exit_code: int | None = None
    ) -> None:
        """A subclass has its own of these where its class statement says so; the others it inherits."""
        cls.name = cls.name if name is None else name
        cls.code = cls.code if code is None else code
        cls.exit_code = cls.exit_code if exit_code is None else exit_code

    def __init__(self, message: str | None = None, *, details: Sequence[dict[str, Any]] = (), hint: str = "") -> None:
        self.message = message or inspect.cleandoc(self.__doc__ or "").split("\n\n")[0].replace("\n", " ")
        self.details = list(details)
        self.hint = hint  #: where to read on
        self.request_id: str | None = None
        self.restorable: list[dict[str, Any]] = []  #: of a revision that cannot be undone: the rows that could be
        super().__init__(self.message)

    def lines(self) -> list[str]:
        """The message, and one indented line for each detail that it does not contain."""
        lines = [detail_line(detail) for detail in self.details if not self._is_repeated(detail)]
        return [self.message, *(f"  {line}" for line in [*lines, self.hint] if line)]

    def in_one_line(self) -> str:
        """The same, for a cell of a table."""
        return "; ".join(line.strip().rstrip(".") for line in self.lines())

    def _is_repeated(self, detail: dict[str, Any]) -> bool:
        """Whether the message contains the detail, as the admin's mostly does where there is only one."""
        words = [*(detail.get("closest") or []), detail.get("reason") or ""]
        if len(self.details) > 1:
            words.append(detail.get("field") or "")
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
        if self.restorable:
            body["restorable"] = self.restorable
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


class Unreachable(ClientError, name="unreachable", code=14, exit_code=6):
    """The admin cannot be reached. Check that it runs, and the endpoint that `rainbowctl config view` shows."""


class Unanswered(Unreachable, name="unanswered", code=4):
    """The request was sent but no answer came: it may have been carried out. Look with `get` before repeating it."""


class InvalidRequest(ClientError, name="invalid_request", code=3, exit_code=2):
    """The admin refused the request."""


class Unauthenticated(ClientError, name="unauthenticated", code=16, exit_code=4):
    """The admin requires a token. Log in with `rainbowctl login`, or give one with --token-file or RAINBOW_TOKEN."""


class LoginRefused(Unauthenticated, name="login_refused"):
    """The OpenID provider refused the login."""

    def __init__(self, message: str | None = None, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason  #: OAuth's word for it


class Forbidden(Unauthenticated, name="forbidden", code=7):
    """The token is valid, but does not allow this."""


class NotFound(ClientError, name="not_found", code=5, exit_code=3):
    """Not found."""


class Conflict(ClientError, name="conflict", code=10, exit_code=5):
    """Someone else changed it in the meantime. Look at it again, then repeat the change."""


class ServerError(ClientError, name="server_error", code=13):
    """The admin failed. Search its log for the request id."""


class InvalidInput(RainbowError, name="invalid_input", code=3, exit_code=2):
    """The input is invalid."""


class UnwritableBody(InvalidInput):
    """JSON cannot represent infinite numbers or NaN: give a finite number."""


class InvalidFile(InvalidInput, name="invalid_file"):
    """The file cannot be used."""


class NothingSet(RainbowError, name="nothing_set", code=5, exit_code=3):
    """Nothing is set there, and nothing is inherited."""


class Declined(RainbowError, name="declined", code=1):
    """Not confirmed: nothing was changed."""


class WarningsFound(RainbowError, name="warnings_found", code=9, exit_code=7):
    """There were warnings, and --strict asks to fail on them."""


class AlreadyCreated(RainbowError, name="already_created", code=6, exit_code=8):
    """The same execution exists already: nothing was started."""


class EndedOtherwise(RainbowError, name="ended_otherwise", code=9, exit_code=9):
    """The condition was not met."""


class TokensExhausted(RainbowError, name="tokens_exhausted", code=8, exit_code=9):
    """The tokens were not granted in time."""

    full: Sequence[dict[str, Any]] = ()  #: the limits that are full, as the admin answered last
    place: int | None = None  #: in line at the end, the first is 1


class TokensLost(RainbowError, name="tokens_lost", code=10):
    """The lease of the tokens was lost: others may have got them in the meantime."""


class OutputCut(RainbowError, name="output_cut", code=15):
    """An output file is larger than the admin keeps: its end is missing."""


class Interrupted(RainbowError, name="interrupted", code=1, exit_code=130):
    """Interrupted."""


def common_exit_code(errors: Iterable[RainbowError]) -> int:
    """The exit status of a command with several errors: theirs where they share one, else 1."""
    codes = {error.exit_code for error in errors}
    return codes.pop() if len(codes) == 1 else RainbowError.exit_code


def detail_line(detail: dict[str, Any]) -> str:
    """One detail of an error as text; empty if there is nothing to show."""
    reason = str(detail.get("reason", ""))
    line = ": ".join(str(part) for part in (detail.get("position"), detail.get("field"), reason) if part)
    closest = [str(word) for word in detail.get("closest") or []]
    if closest and not any(word in reason for word in closest):
        line += f"{' ' if line else ''}(did you mean {' or '.join(closest)}?)"
    return line
