"""Windows of time: errors of the admin about them name the flags that were typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ctl.client.errors import InvalidRequest

#: The flags of a window by the names that the API has for its ends.
WINDOW = {"after": "--since", "before": "--until"}


@contextmanager
def named_by_flags(flags: Mapping[str, str] = WINDOW) -> Iterator[None]:
    """Errors of the admin that name parameters of a query name the flags which set them instead."""
    try:
        yield
    except InvalidRequest as error:
        for detail in error.details:
            field = str(detail.get("field"))
            if field in flags:
                detail["field"] = flags[field]
                error.message = error.message.replace(f"{field}: ", f"{flags[field]}: ", 1)
        raise
