"""
The built-in kinds as the admin's API gives them: what `ctl/client/kinds.json` must hold.

    python -m scripts.kinds_snapshot > ctl/client/kinds.json
"""

from __future__ import annotations

import json

from admin.api.kinds import as_answer
from admin.core.settings.builtin_kinds import BUILTIN_KINDS


def snapshot() -> str:
    return json.dumps({"kinds": [as_answer(kind) for kind in BUILTIN_KINDS]}, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(snapshot(), end="")
