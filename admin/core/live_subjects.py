"""What a page of the console shows, as far as that tells when it must be shown anew."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Topic(StrEnum):
    """Something that changes as a whole."""

    EXECUTIONS = "executions"  #: any of them
    SETTINGS = "settings"
    FLEET = "fleet"
    RIGHTS = "rights"
    TOKENS = "tokens"  #: of token pools: who holds some and who waits, where the admin's database keeps that
    LOG = "log"  #: what the execution that the address of the page names has printed
    EXECUTION = "execution"  #: the one that the address of the page names


class Subject(NamedTuple):
    """What one page shows."""

    topics: tuple[Topic, ...] = ()
    execution: tuple[str, str, str] | None = None  #: project, domain and name, of a page about one of them
