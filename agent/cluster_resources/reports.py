"""Reports: what became of the objects of a namespace."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.engines.resource_api import Document

#: How long a message may be, and about how long all of one namespace.
_MESSAGE, _MESSAGES = 4000, 256 * 1024


@dataclass(kw_only=True)
class Report:
    """What became of a namespace."""

    namespace: str
    project: str
    domain: str
    digest: str = ""
    exists: bool = False
    objects: list[dict[str, str]] = field(default_factory=list)

    def add(self, identity: str, state: str, message: str = "") -> None:
        self.objects.append({"object": identity[:600], "state": state, "message": message})

    @property
    def has_failed(self) -> bool:
        return any(entry["state"] in ("failed", "drifted") for entry in self.objects)

    def document(self) -> Document:
        """The report as it is sent: what the API server says of many objects is cut, so that one request has room."""
        most = min(_MESSAGE, _MESSAGES // max(1, len(self.objects)))
        objects = [{**entry, "message": entry["message"][:most]} for entry in self.objects]
        return {**vars(self), "objects": objects}
