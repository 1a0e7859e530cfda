"""How projects are shown."""

from __future__ import annotations

from typing import Any

from ctl.cli.session import Session
from ctl.client.answers import Document


def print_projects(session: Session, projects: list[Document], document: Any) -> None:
    """Projects as a table, or the document as it came."""
    printer = session.printer
    if printer.machine_output((f"project/{project['id']}" for project in projects), document):
        return
    if projects:
        columns = ["ID", "NAME", "DESCRIPTION", "STATE"]
        columns += ["LABELS", "DOMAINS", "CREATED", "UPDATED"] if printer.is_wide else []
        printer.table(columns, [_cells(project, printer.is_wide) for project in projects])


def _cells(project: Document, is_wide: bool) -> list[str]:
    cells = [str(project.get(key) or "") for key in ("id", "name", "description", "state")]
    if is_wide:
        labels = (project.get("labels") or {}).get("values") or {}
        cells.append(",".join(f"{key}={value}" for key, value in labels.items()))
        cells.append(",".join(str(domain["id"]) for domain in project.get("domains") or []))
        cells += [str(project.get(key) or "") for key in ("created_at", "updated_at")]
    return cells
