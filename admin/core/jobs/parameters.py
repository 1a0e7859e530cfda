"""Parameters: values that a jobspec gives for rules to calculate with, carried by the job as an annotation."""

from __future__ import annotations

import json
from collections.abc import Mapping

#: The annotation that carries them, as JSON.
PARAMETERS = "jobspec/parameter"


def parameters_in(annotations: Mapping[str, str]) -> dict[str, bool | int | float | str]:
    """The numbers, texts and booleans among a job's parameters; anything else has no name in rules."""
    text = annotations.get(PARAMETERS, "")
    if not text.startswith("{"):
        return {}
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):  # an annotation that somebody wrote by hand
        return {}
    return {name: value for name, value in values.items() if isinstance(value, bool | int | float | str)}
