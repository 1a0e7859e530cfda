"""Warnings: everything stored that is questionable now."""

from __future__ import annotations

from admin.core.settings.warnings import Warning
from admin.services.changeable.registry import NOUNS
from admin.services.context import Context


def list_warnings(context: Context) -> list[Warning]:
    """Every warning that is true now, by noun, kind and scope."""
    with context.database.reading() as connection:
        return [warning for noun in NOUNS for warning in noun.stored_warnings(context, connection)]
