"""
The calls of the client that are about the fleet: clusters, pools and labels.

    client.put_definition("pool", "gpu", {"members": [{"id": "a", "weight": 6}, {"id": "b", "weight": 1}]})
    client.switch_cluster("a", "cordon", reason="new disks")
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

from ctl.client.answers import Document, RowChange
from ctl.client.calls.base import PATH_NOT_FOUND, PutOptions, VersionOptions, WriteOptions, non_empty, resource_path
from ctl.client.calls.changes import ChangeCalls
from ctl.client.errors import NotFound
from ctl.client.nouns import FLEET, USER, collection, json_key, row_kind
from ctl.client.scopes import Scope, check_name


class FleetCalls(ChangeCalls):
    """Part of the client; see `ctl.client.Client`. A noun is `cluster`, `pool`, `label`, `user` or `group`."""

    def definitions(self, noun: str, **filters: str | None) -> Iterator[Document]:
        """
        Every cluster, pool, label or user, page by page.

        Clusters can be filtered by `pool` and `label`, users by `service_account`, which is `true` or `false`.
        """
        nouns = collection(noun)
        yield from self._pages(nouns, nouns, filters)

    def definition(self, noun: str, name: str) -> Document:
        """One cluster, pool, label or user; of a cluster also its reported state."""
        return self._read(_path(noun, name))

    def definitions_at(self, noun: str, at: int, *, name: str | None = None) -> Iterator[Document]:
        """The clusters, pools or labels as they were defined at a revision, or the one of a name; page by page.

        Each has its `definition`, `version` and the `provenance` of that; what configuration declares is not kept.
        """
        query = {"resource_type": row_kind(noun), "at": at, "name": name}
        with self._newer_path("It cannot tell definitions of the past; `rainbowctl history` has their changes."):
            yield from self._pages("definitions", "definitions", query)

    def all_definitions(self, **filters: Any) -> Iterator[Document]:
        """
        What is defined, of all nouns, each with its `revision` and the `provenance` of that; page by page.

        Filters are `noun`, `project`, `domain`, `filters` (`eq(author,ada)`, which an older admin leaves out), and
        `limit`, the size of a page.
        """
        with self._newer_path("`rainbowctl get NOUN` lists the definitions of one noun."):
            yield from self._pages("all_definitions", "definitions", filters, optional=("filters",))

    def pool_shares(
        self, name: str, *, after: str | None = None, before: str | None = None, by: str | None = None
    ) -> Document:
        """What a pool promises its clusters, against what it placed there within a window, by default an hour.

        `by` user, project or cluster counts what was placed by that too, in `groups`.
        """
        return self._read(f"{_path('pool', name)}/shares", non_empty({"after": after, "before": before, "by": by}))

    def compare_clusters(self, name: str, other: str) -> Document:
        """What differs between two clusters: a `message`, and `facts` of both with whether they are `equal`."""
        with self._newer_path("It compares no clusters; `rainbowctl get cluster NAME -o yaml` shows each."):
            return self._read(f"{_path('cluster', name)}/comparison", {"other": other}, holding="facts")

    def stored_definitions(self, noun: str, definitions: Iterable[Document]) -> list[RowChange]:
        """
        The stored definitions of managed clusters, pools, labels, users, groups or grants, with their versions.

        Each is in `before`.

        `definition` answers more: defaults, reported state and switches.
        """
        if noun not in FLEET:
            return [_stored(noun, definition) for definition in definitions]
        listed = {str(definition["name"]): definition for definition in definitions}
        if not listed:
            return []
        if any(definition.get("source", "managed") != "managed" for definition in listed.values()):
            return self._replaced(noun, listed.values())  # which is refused, with the reason
        query = {"resource_type": row_kind(noun), "name": next(iter(listed)) if len(listed) == 1 else None}
        try:
            stored = list(self._pages("definitions", "definitions", query))
        except NotFound as error:
            return self._replaced(noun, listed.values()) if error.name == PATH_NOT_FOUND else []
        return [
            _row(noun, entry["name"], entry["definition"], entry["version"])
            for entry in stored
            if entry["name"] in listed
        ]

    def _replaced(self, noun: str, definitions: Iterable[Document]) -> list[RowChange]:
        """The same of an older admin: a dry run of the smallest definition of a name answers with the stored one."""
        changes = [{f"{json_key(noun)}_definition": _smallest(definition)} for definition in definitions]
        return [row for row in self.change_attributes(changes, dry_run=True).rows if row.before is not None]

    def create_definition(
        self, noun: str, name: str, payload: Mapping[str, Any], **options: Unpack[WriteOptions]
    ) -> Document:
        """Define a new cluster, pool, label or user; Conflict if there is one of that name."""
        check_name(noun, name)
        return self._change("POST", collection(noun), {json_key(noun): {"name": name, **payload}}, **options)

    def put_definition(
        self, noun: str, name: str, payload: Mapping[str, Any], **options: Unpack[PutOptions]
    ) -> Document:
        """Replace the whole definition, or make it where there is none; the rest is as in `put_attribute`."""
        return self._change("PUT", _path(noun, name), {json_key(noun): dict(payload)}, **options)

    def delete_definition(
        self, noun: str, name: str, *, force: bool = False, **options: Unpack[VersionOptions]
    ) -> Document:
        """Delete a definition; Conflict while it is in use, unless forced. `changed` tells whether there was one."""
        query = {"force": "true"} if force and noun != USER else {}
        return self._change("DELETE", _path(noun, name), {}, **options, query=query)

    def delete_definitions(
        self, noun: str, names: Sequence[str], *, force: bool = False, **options: Unpack[WriteOptions]
    ) -> Document:
        """Delete several definitions as one revision, or none of them; Conflict while one is in use, unless forced."""
        changes = [{f"{json_key(noun)}_definition": {"name": name}, "delete": True} for name in names]
        query = {"force": "true"} if force else {}
        return self._change("POST", "attribute_changes", {"changes": changes}, **options, query=query)

    def switch_cluster(
        self,
        name: str,
        switch: str,
        *,
        reason: str | None = None,
        claimed_by: str | None = None,
        deadline: str | None = None,
        dry_run: bool = False,
    ) -> Document:
        """
        Enable, disable, cordon, uncordon, drain, undrain or admit a cluster; `changed` tells whether it was not so.

        `deadline` is how long running work may take to finish on a cluster that is drained, such as `10m`. With
        `dry_run` nothing is changed, and `effects` tell what would become of executions.
        """
        body = non_empty({"reason": reason, "claimed_by": claimed_by, "deadline": deadline})
        return self._write("POST", f"{_path('cluster', name)}/{switch}", body, dry_run=dry_run)

    def switch_clusters(
        self,
        names: Sequence[str],
        switch: str,
        *,
        reason: str | None = None,
        claimed_by: str | None = None,
        deadline: str | None = None,
        dry_run: bool = False,
    ) -> Document:
        """
        Do the same to several clusters at once, or to none; the rest is as in `switch_cluster`.

        An older admin, which cannot do that, is asked to switch one after the other, and `notes` say so.
        """
        options = non_empty({"reason": reason, "claimed_by": claimed_by, "deadline": deadline})
        body = {**options, "switch": switch, "clusters": list(names)}
        try:
            with self._newer_path("It previews the switch of one cluster at a time: ask for each on its own."):
                return self._write("POST", "cluster_switches", body, dry_run=dry_run)
        except NotFound as error:
            if dry_run or error.name != PATH_NOT_FOUND:
                raise
        return self._switch_one_by_one(names, switch, options)

    def _switch_one_by_one(self, names: Sequence[str], switch: str, options: Document) -> Document:
        for name in names:  # a cluster that is refused is to be known before the first one is switched
            self.switch_cluster(name, switch, **options, dry_run=True)
        answers = [self.switch_cluster(name, switch, **options) for name in names]
        notes = [note for answer in answers for note in answer.get("notes") or []]
        return {
            "clusters": answers,
            "changed": any(answer["changed"] for answer in answers),
            "dry_run": False,
            "notes": [
                *notes,
                f"The admin at {self.endpoint} is older: the clusters were switched one after the other.",
            ],
        }

    def cluster_tokens(self, name: str) -> list[Document]:
        """The tokens of a cluster's agent, newest first, without their secrets."""
        return list(self._read(f"{_path('cluster', name)}/tokens", holding="tokens")["tokens"])

    def rotate_token(self, name: str, *, overlap: str | None = None) -> Document:
        """A new `token`, which cannot be read again; older ones are valid until the overlap, such as `10m`, is over."""
        return self._write("POST", f"{_path('cluster', name)}/tokens", non_empty({"overlap": overlap}))

    def revoke_token(self, name: str, prefix: str) -> Document:
        """End a token at once; `changed` tells whether it counted until now."""
        return self._write("DELETE", resource_path(f"{_path('cluster', name)}/tokens", token=prefix))

    def cluster_events(self, name: str, *, page_size: int | None = None, reports: bool = True) -> Iterator[Document]:
        """What happened to a cluster, newest first, page by page; without `reports` those of its agent are left out."""
        for page in self.cluster_event_pages(name, page_size=page_size, reports=reports):
            yield from page["events"]

    def cluster_event_pages(
        self, name: str, *, page_size: int | None = None, reports: bool = True
    ) -> Iterator[Document]:
        """The same as pages, each with its `events` and how many reports were `left_out`."""
        query = non_empty({"limit": page_size}) | ({} if reports else {"reports": "false"})
        yield from self._answers(f"{_path('cluster', name)}/events", "events", query, optional=["reports"])

    def report_cluster_state(self, name: str, state: Mapping[str, Any]) -> Document:
        """Report the state of a cluster in place of its agent: capacity, free resources, engine and plugins."""
        return self._write("PUT", f"{_path('cluster', name)}/state", dict(state))


def _is_said(value: object) -> bool:
    """Whether an answer's value is part of a definition: a number is, also 0."""
    return bool(value) or (isinstance(value, int) and not isinstance(value, bool))


def _stored(noun: str, definition: Document) -> RowChange:
    """A row as its answer has it, which holds the whole definition."""
    from ctl.client.facts import SCHEMAS

    fields = {key: definition[key] for key in SCHEMAS[noun]["properties"] if _is_said(definition.get(key))}
    return _row(noun, str(definition["name"]), fields, definition.get("version"))


def _row(noun: str, name: str, fields: Document, version: int | None) -> RowChange:
    """A row as it is stored."""
    return RowChange(
        action="unchanged",
        kind=row_kind(noun),
        scope=Scope(),
        name=name,
        before=fields,
        after=fields,
        version=version,
    )


def _smallest(definition: Document) -> Document:
    members = [{"id": member["id"], "weight": member["weight"]} for member in definition.get("members") or []]
    return {"name": definition["name"], **({"members": members} if "members" in definition else {})}


def _path(noun: str, name: str) -> str:
    return resource_path(collection(noun), **{noun: name})
