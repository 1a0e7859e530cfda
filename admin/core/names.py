"""Names: the patterns of valid names, and the rules that messages quote."""

from __future__ import annotations

import re
from functools import lru_cache

DNS_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
DNS_LABEL_RULE = "lower-case letters, digits and '-', at most 63, starting and ending with a letter or digit"

#: Workflows and launch plans are often named by module paths, so dots and upper case are allowed.
ENTITY_NAME = r"[A-Za-z0-9_.-]{1,255}"
ENTITY_NAME_RULE = "letters, digits, '_', '.' and '-', at most 255"

#: Users are often named by mail addresses.
USER_NAME = r"[A-Za-z0-9_.@-]{1,128}"
USER_NAME_RULE = "letters, digits, '_', '.', '@' and '-', at most 128"

KIND_NAME = r"[A-Z][A-Z0-9_]{0,62}"
KIND_NAME_RULE = "upper-case letters, digits and '_', at most 63, starting with a letter"

FIELD_NAME = r"[a-z][a-z0-9_]{0,62}"
FIELD_NAME_RULE = "lower-case letters, digits and '_', at most 63, starting with a letter"

ENV_NAME = r"[A-Za-z_.-][A-Za-z0-9_.-]{0,254}"
ENV_NAME_RULE = "letters, digits, '_', '.' and '-', at most 255, not starting with a digit"

#: Kubernetes' qualified name: an optional DNS prefix and a slash, then a short name.
QUALIFIED_NAME = (
    r"(?=.{1,317}$)(?:(?=[^/]{1,253}/)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)
QUALIFIED_NAME_RULE = (
    "an optional DNS prefix and '/', then at most 63 letters, digits, '_', '.' and '-', "
    "starting and ending with a letter or digit"
)
LABEL_VALUE = r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?"
LABEL_VALUE_RULE = "at most 63 letters, digits, '_', '.' and '-', starting and ending with a letter or digit, or empty"


_compiled = lru_cache(maxsize=1024)(re.compile)


def matches(pattern: str, text: str) -> bool:
    """Whether the whole text matches the pattern; a trailing newline does not."""
    return _compiled(pattern).fullmatch(text) is not None


def is_entity_name(text: str) -> bool:
    """Whether a workflow or launch plan may have this name.

    '.' and '..' match the pattern but are refused: URLs drop them, so that a request would reach another scope.
    """
    return matches(ENTITY_NAME, text) and text not in {".", ".."}


def is_user_name(text: str) -> bool:
    """Whether a user may have this name; '.' and '..' are refused, as for workflows."""
    return matches(USER_NAME, text) and text not in {".", ".."}


@lru_cache(maxsize=4096)
def camel(name: str) -> str:
    """The camelCase spelling of a snake_case name."""
    head, *tail = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in tail)


def snake(name: str) -> str:
    """The snake_case spelling of a camelCase name."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
