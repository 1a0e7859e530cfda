"""One call of rainbowctl: what was typed, the settings that follow, the client and the printer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ctl.cli.output import Printer, parse_format

if TYPE_CHECKING:
    from ctl.client.calls.base import Reasons
    from ctl.client.client import Client
    from ctl.client.contexts import Settings


class Session:
    """Gathers the global flags, which may stand before the verb and after the noun; the last one counts."""

    def __init__(
        self,
        client: Client | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """A client and the functions for waiting are given by tests."""
        self.sleep = sleep
        self.monotonic = monotonic
        self.typed: dict[str, str | None] = {}
        self.is_quiet = False
        self.has_headers = True
        self.error_status: int | None = None  #: of every error, for a command whose statuses mean something else
        self._client = client

    @cached_property
    def settings(self) -> Settings:
        from ctl.client.contexts import load_settings

        return load_settings(self.typed)

    @cached_property
    def printer(self) -> Printer:
        output = parse_format(self.typed.get("output") or str(self.settings.output.value))
        return Printer(format=output, is_quiet=self.is_quiet, has_headers=self.has_headers, is_partial=self._is_partial)

    def fold(self) -> None:
        """Have all that is printed from now on fit 100 columns, as answers about one thing do."""
        self.printer = self.printer.folded()

    def _is_partial(self) -> bool:
        return self._client is not None and self._client.is_partial

    def check_output(self) -> None:
        """Refuse a wrong RAINBOW_OUTPUT before anything is done; a typed format was checked when it was read."""
        if "output" not in self.typed and os.environ.get("RAINBOW_OUTPUT"):
            parse_format(os.environ["RAINBOW_OUTPUT"])

    @property
    def client(self) -> Client:
        """The client for the settings in force, made when first needed."""
        if self._client is None:
            from ctl.client.client import Client
            from ctl.client.transport import new_request_id

            if self.settings.flyte is not None:
                self.printer.note(self.settings.flyte.note)
            client = Client.from_settings(self.settings, on_stale=self._warn_of_age, request_id=new_request_id())
            if self.settings.as_user is not None:
                _check_acting(client, self.settings.as_user)
            self._client = client
        return self._client

    def _warn_of_age(self, seconds: int) -> None:
        self.printer.warning(f"the admin cannot read its database; this is what applied {seconds} s ago")

    def client_with_timeout(self, seconds: float) -> Client:
        """A new client with a short timeout and no retries, for lookups such as completion."""
        from ctl.client.client import Client
        from ctl.client.contexts import load_settings

        return Client.from_settings(load_settings(self.typed), timeout=seconds, retries=0)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def _check_acting(client: Client, user: str) -> None:
    """Refuse to go on where an older admin would act in the caller's own name."""
    from ctl.client.errors import InvalidInput

    if client.whoami().get("user") != user:
        raise InvalidInput(f"The admin at {client.endpoint} is older than --as: nothing was done as {user}.")


def local_user() -> str | None:
    """The name of the local user, who is noted as the author of a change; None if the system has none."""
    from getpass import getuser

    try:
        return getuser()
    except (OSError, KeyError):
        return None


def reasons(flags: Mapping[str, Any]) -> Reasons:
    """Why a change is made, and by whom, as the calls of the client take it."""
    return {"message": flags["message"], "claimed_by": local_user()}


def client_version() -> str:
    """The version of the installed package."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rainbow")
    except PackageNotFoundError:
        return "unknown"
