"""Forms that REST may refuse: the page is shown again with the values, and each problem at its field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from admin.api.current import caller
from admin.api.failures import note_refusal, translate
from admin.console.answers import error_answer
from admin.core.problems import Invalid
from admin.errors import PermissionDenied, RainbowError, Unauthenticated


class Tried(NamedTuple):
    """What came of asking: an answer, or what refused it."""

    answer: Any = None
    error: Any = None  #: as REST answers it
    status: int = 200

    def problems(self, fields: Iterable[str]) -> dict[str, str]:
        """The problems by the fields of a form, which have the names that REST has for them."""
        reasons: dict[str, str] = {}
        for detail in self.error["details"] if self.error else ():
            field = longest_prefix(str(detail.get("field") or ""), fields)
            if field is not None:
                reasons[field] = f"{reasons[field]} {detail['reason']}" if field in reasons else str(detail["reason"])
        return reasons


def tried(question: Callable[..., Any], *arguments: Any, **named: Any) -> Tried:
    """What a question to REST comes to; a refusal of the caller as a person is that of the page."""
    try:
        return Tried(question(*arguments, **named))
    except (PermissionDenied, Unauthenticated):
        raise
    except (Invalid, RainbowError) as failure:
        error = translate(failure, caller().request_id)
        if error.status >= 500:
            raise
        note_refusal(error, caller().request_id, "POST")
        return Tried(error=error_answer(error, caller().request_id), status=error.status)


def longest_prefix(field: str, names: Iterable[str]) -> str | None:
    """The field of a form that has what a problem is about; None where it has none."""
    fitting = [name for name in names if field == name or field.startswith((f"{name}.", f"{name}["))]
    return max(fitting, key=len, default=None)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """A document of values by their dotted paths."""
    document: dict[str, Any] = {}
    for path, value in values.items():
        *branches, leaf = path.split(".")
        node = document
        for branch in branches:
            node = node.setdefault(branch, {})
        node[leaf] = value
    return document
