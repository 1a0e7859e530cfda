"""
Exports: what is stored, as documents that `apply` takes as they are.

The same state gives the same bytes: projects first, then clusters, pools, labels, users, groups, grants, cluster
groups, use grants and token pools by name, then attributes by the number of their kind and by scope; fields in the
order of the schema, keys of free-form maps sorted, no versions, no times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from ctl.client.answers import Attribute, Document, RowChange
from ctl.client.errors import InvalidInput
from ctl.client.formats import to_yaml
from ctl.client.kinds import Kind, Schema
from ctl.client.nouns import GROUP, NAMED, NAMELESS, PROJECT, USER, plural
from ctl.client.scopes import KEYS, LEVEL_FLAGS, Scope
from ctl.files.fleet import FIELDS

#: First line of every export, by which files of an earlier one are known.
MARK = "# Exported by rainbowctl: `rainbowctl apply -f` takes it as it is."

_LEVELS = list(LEVEL_FLAGS)
_LONGEST_NAME = 200


@dataclass(frozen=True, kw_only=True)
class Exported:
    """One document of an export."""

    scope: Scope
    document: Document

    @property
    def file(self) -> str:
        """The file it belongs to, below the directory of an export."""
        kind = self.document["kind"]
        if kind in NAMELESS:
            name = next(f"{noun}-{self.document[noun]}" for noun in (USER, GROUP, PROJECT) if noun in self.document)
            return str(PurePosixPath(plural(kind), f"{_part(name)}.yaml"))
        if kind in NAMED:
            return str(PurePosixPath(plural(kind), f"{_part(str(self.document['name']))}.yaml"))
        return file_name(self.scope)


def exported_project(project: Mapping[str, Any]) -> Exported:
    """A project, every field that can be changed."""
    labels = (project.get("labels") or {}).get("values") or {}
    document = {
        "kind": "project",
        "id": project["id"],
        "name": project.get("name") or "",
        "description": project.get("description") or "",
        "labels": dict(sorted(labels.items())),
        "state": project.get("state") or "ACTIVE",
    }
    return Exported(scope=Scope(project=str(project["id"])), document=document)


def exported_definitions(noun: str, rows: Iterable[RowChange]) -> list[Exported]:
    """What is defined, sorted by name; that of a grant follows from the rest."""
    schema: Schema = {"properties": FIELDS[noun]}
    exported = []
    for row in sorted(rows, key=lambda row: str(row.name)):
        name = {} if noun in NAMELESS else {"name": row.name}
        document = {"kind": noun, **name, **in_order(row.before or {}, schema)}
        exported.append(Exported(scope=Scope(), document=document))
    return exported


def exported_rows(rows: Iterable[Attribute], kinds: Mapping[str, Kind]) -> list[Exported]:
    """Rows of known kinds, sorted."""
    exported = []
    for row in sorted(rows, key=lambda row: (kinds[str(row.kind)].number, _scope_key(row.scope))):
        kind = kinds[str(row.kind)]
        document = {"kind": kind.noun, **row.scope.document(), **in_order(row.payload, kind.schema)}
        exported.append(Exported(scope=row.scope, document=document))
    return exported


def _scope_key(scope: Scope) -> tuple[Any, ...]:
    names = scope.document()
    return (_LEVELS.index(scope.level), *(names.get(key, "") for key in KEYS))


def in_order(value: Any, schema: Schema) -> Any:
    """A value with its fields in the order of the schema, and the keys of free-form maps sorted; lists as they are."""
    if isinstance(value, Mapping):
        properties = schema.get("properties", {})
        if not properties:
            return {key: in_order(value[key], {}) for key in sorted(value)}
        order = [*(name for name in properties if name in value), *sorted(set(value) - set(properties))]
        return {name: in_order(value[name], properties.get(name, {})) for name in order}
    if isinstance(value, list):
        return [in_order(item, schema.get("items", {})) for item in value]
    return value


def as_stream(documents: Sequence[Exported]) -> str:
    """All documents as one text."""
    return "".join([f"{MARK}\n", *(f"---\n{to_yaml(exported.document)}" for exported in documents)])


def as_files(documents: Sequence[Exported]) -> dict[str, str]:
    """
    The documents by file, one file a scope: `domains/production.yaml`, `projects/flyteexamples/production.yaml`.

    Each cluster, pool, label, user and group has its own: `pools/gpu.yaml`; so have the grants of each user and group.
    """
    by_file: dict[str, list[Exported]] = {}
    for exported in documents:
        by_file.setdefault(exported.file, []).append(exported)
    return {name: as_stream(group) for name, group in by_file.items()}


def file_name(scope: Scope) -> str:
    """The file of a scope, below the directory of an export."""
    if scope.level == "domain":
        return str(PurePosixPath("domains", f"{_part(str(scope.domain))}.yaml"))
    *folders, last = [_part(name) for name in scope.document().values()]
    return str(PurePosixPath("projects", *folders, f"{last}.yaml"))


def _part(name: str) -> str:
    """A name as part of a path: never hidden, never longer than file systems allow, never another's file or folder."""
    safe = quote(name, safe="")
    if safe.startswith("."):
        safe = f"%2E{safe[1:]}"
    if safe.endswith(".yaml"):
        safe = f"{safe[:-5]}%2Eyaml"
    if len(safe) > _LONGEST_NAME:
        safe = f"{safe[: _LONGEST_NAME - 17]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return safe


def write_directory(directory: Path, files: Mapping[str, str], *, is_forced: bool) -> int:
    """
    Write files below a directory and answer how many of an earlier export were removed.

    A directory that is not empty is refused unless forced. Then only files that begin with the mark of an export are
    written over or removed; hidden files and directories are never looked at.
    """
    try:
        if directory.exists() and not directory.is_dir():
            raise InvalidInput(f"{directory} is not a directory.")
        before = list(_below(directory)) if directory.is_dir() else []
        if before and not is_forced:
            raise InvalidInput(f"{directory} is not empty: use --force, or choose another directory.")
        ours = {path for path in before if _is_export(path)}
        targets = {directory / name: text for name, text in files.items()}
        for path in targets:
            if path.exists() and path not in ours:
                raise InvalidInput(f"{path} exists and no export wrote it: move it elsewhere. Nothing was written.")
        for path, text in targets.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        return _remove(directory, ours - set(targets))
    except OSError as error:
        raise InvalidInput(f"{error.filename or directory} cannot be written: {error.strerror}.") from None


def _remove(directory: Path, stale: set[Path]) -> int:
    for path in stale:
        path.unlink()
        for folder in path.parents:
            if folder == directory or any(folder.iterdir()):
                break
            folder.rmdir()
    return len(stale)


def _below(directory: Path) -> Iterator[Path]:
    for entry in sorted(directory.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _below(entry)
        else:
            yield entry


def _is_export(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.readline(len(MARK) + 2).rstrip(b"\r\n") == MARK.encode()
