"""Definitions of all nouns: what exists under a name, and who defined it."""

from __future__ import annotations

from dataclasses import dataclass

from admin.core.provenance import Provenance

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


@dataclass(frozen=True, kw_only=True)
class Defined:
    """Something that is defined under a name."""

    noun: str
    name: str
    source: str = MANAGED  #: one of `SOURCES`
    revision: int | None = None  #: the last one that changed it
    version: str | None = None  #: of a workflow or launch plan, the one that was registered last
    provenance: Provenance | None = None
