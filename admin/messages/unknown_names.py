"""Unknown names: those of a question that nothing has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from admin.messages.shared import Answer
from admin.services.unknown_names import UnknownName


class UnknownNameAnswer(Answer):
    """A name that was asked for and that nothing has."""

    field: str
    value: str
    message: str
    closest: list[str]

    @classmethod
    def from_unknown(cls, unknown: Sequence[UnknownName]) -> list[UnknownNameAnswer] | None:
        return [cls(**{**name._asdict(), "closest": list(name.closest)}) for name in unknown] or None


UnknownNames = Annotated[
    list[UnknownNameAnswer] | None,
    Meta(description="Names that were asked for and that nothing has, and similar ones."),
]
