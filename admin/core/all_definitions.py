"""Definitions of all nouns: what exists under a name, and who defined it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from admin.core.executions.selectors import FieldType
from admin.core.provenance import Provenance
from admin.core.row_conditions import RowCondition

MANAGED, CONFIGURATION, REGISTERED = "managed", "configuration", "registered"
#: Where definitions come from: a revision, the admin's configuration, or a registration.
SOURCES = (MANAGED, CONFIGURATION, REGISTERED)
#: In the order of the list.
NOUNS = (
    *("project", "domain", "cluster", "pool", "label", "cluster-group", "token-pool", "queue"),
    *("workflow", "launch-plan", "kind", "role", "user", "group", "grant", "use-grant", "setting"),
)
#: What is set at scopes, of all kinds; so many that they are listed only where they are asked for.
SETTING = "setting"


#: What definitions are selected by.
FIELDS = {
    **dict.fromkeys(("noun", "name", "source", "version", "author", "claimed_by", "message"), FieldType.TEXT),
    "revision": FieldType.COUNT,
    "at": FieldType.TIME,
}
#: Fields with a fixed set of values.
WORDS = {"noun": NOUNS, "source": SOURCES}


@dataclass(frozen=True, kw_only=True)
class Defined:
    """Something that is defined under a name."""

    noun: str
    name: str
    source: str = MANAGED  #: one of `SOURCES`
    revision: int | None = None  #: the last one that changed it
    version: str | None = None  #: of a workflow or launch plan, the one that was registered last
    provenance: Provenance | None = None

    def has(self, conditions: Iterable[RowCondition]) -> bool:
        """Whether it fulfils all of some conditions."""
        values = {**({} if self.provenance is None else vars(self.provenance)), **vars(self)}
        return all(condition.matches(values.get(condition.field)) for condition in conditions)
