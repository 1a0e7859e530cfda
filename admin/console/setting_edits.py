"""Edits of settings: a form for a kind at a scope, what the change would do, and the change; how a row is deleted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flask import Response, g

from admin.api.failures import translate
from admin.console.answers import ask, asked_query, error_answer
from admin.console.commands import tried_and_done, update_options
from admin.console.filters import leaves, page
from admin.console.pages import Pages, Shown, go_to, is_unconfirmed, render, shown_again
from admin.console.setting_forms import (
    FormField,
    as_yaml,
    fields_of,
    patch_of,
    read_document,
    sent_fields,
    with_patch,
    with_problems,
)
from admin.console.settings import asked_scope, kind_called, scope_of, scope_options, scope_text
from admin.console.suggestions import suggestions
from admin.core.executions.selectors import quoted_value
from admin.core.problems import Invalid, invalid
from admin.core.settings.scopes import SCOPE_KEYS, Level
from admin.errors import AttributeNotFound, RainbowError, VersionConflict
from admin.services.changeable.attributes import QUOTAS_WRITE

pages = Pages("setting-edits")

_EDIT, _APPLY, _DELETE = "/settings/edit", "/settings/apply", "/settings/delete"
_REDECIDE = "/settings/redecide"
_MESSAGE_LENGTH = 1000
#: The list of names that a field suggests, by what it refers to. The tags of queues are lines of a text.
_SUGGESTED = {"pool": "pools", "label": "labels", "token pool": "token_pools"}
#: Of how many executions the names stand in the address of a list.
_MOST_NAMED = 20
#: How many executions one form decides again; what is left has a form of its own.
_MOST_DECIDED = 1000
#: How many of them the page previews; previewing more is slow.
_MOST_FORESEEN = 100


class _Place:
    """A kind at a scope, which the address of each of these pages names."""

    def __init__(self) -> None:
        query = asked_query(*SCOPE_KEYS, "resource_type", "form", "after")
        self.keys = asked_scope(query)
        level = scope_of(self.keys).level
        if level is Level.PLATFORM:
            raise invalid("domain", "is missing: what applies everywhere is in the admin's configuration.")
        self.kind = kind_called(query.get("resource_type", ""))
        self.is_raw = query.get("form") == "raw"
        self.after: str = query.get("after", "")  #: which executions were decided again before
        self._noun = f"{level.value.replace('-', '_')}_attribute"

    def address(self, action: str, **query: str | None) -> str:
        """The address of a page about it."""
        return page("settings", action, **self.keys, resource_type=self.kind["name"], **query)

    @property
    def home(self) -> str:
        """The page of the scope, at the card of the kind."""
        return f"{page('settings', **self.keys)}#{self.kind['noun']}"

    @property
    def names(self) -> dict[str, str]:
        """The lists of names that fields of the kind suggest, by the paths of the fields."""
        refers_to = self.kind.get("refers_to") or {}
        return {path: _SUGGESTED[noun] for path, noun in refers_to.items() if noun in _SUGGESTED}

    def row(self) -> tuple[Any, int]:
        """The payload that is stored there, None for none, and its version, 0 for none."""
        try:
            read = ask(f"get_{self._noun}", {"resource_type": self.kind["name"], "exact": True}, path=self.keys)
        except AttributeNotFound:
            return None, 0
        return read["attributes"]["matching_attributes"][self.kind["payload_key"]], read["version"]

    def above(self) -> dict[str, Any]:
        """The leaves that apply there, with their origins, by path."""
        asked = {**self.keys, "resource_type": self.kind["name"], "provenance": True}
        [value] = ask("get_effective_attributes", asked)["values"]
        return {leaf["path"]: leaf for leaf in leaves(value)}

    def write(self, change: Mapping[str, Any], version: int, message: str = "", *, dry_run: bool = False) -> Any:
        """Make a change, of whose row the version is known, or say what it would do."""
        reason = {"message": message} if message else {}
        expected = version or None
        if "payload" in change:
            attributes = {"matching_attributes": {self.kind["payload_key"]: change["payload"]}}
            body = {"attributes": attributes, **reason}
            return ask(
                f"put_{self._noun}", {"dry_run": dry_run}, body, path=self.keys, version=expected, is_new=not version
            )
        query = {"resource_type": self.kind["name"], "dry_run": dry_run}
        return ask(
            f"patch_{self._noun}", query, {**change, **reason}, path=self.keys, version=expected, is_new=not version
        )

    def delete(self, version: int | None, message: str = "", *, dry_run: bool = False) -> Any:
        """Delete the row, or say what that would do."""
        query = {"resource_type": self.kind["name"], "dry_run": dry_run}
        body = {"message": message} if message else {}
        return ask(f"delete_{self._noun}", query, body, version=version, path=self.keys)


def _form(
    place: _Place,
    payload: Any,
    version: int,
    *,
    fields: Sequence[FormField] | None = None,
    raw: str | None = None,
    message: str = "",
    error: RainbowError | None = None,
    is_stale: bool = False,
) -> str:
    above = place.above() if raw is None else {}
    if fields is None:
        shown: Sequence[FormField] = fields_of(place.kind["schema"], payload, above)
    else:
        shown = [replace(entry, above=above.get(entry.path)) for entry in fields]
    names = place.names
    answered = None if error is None else error_answer(error)
    details = answered["details"] if answered else []
    return render(
        "settings/edit.html",
        title=f"Edit {place.kind['name']}",
        commands=[["edit", place.kind["noun"], *scope_options(place.keys)]],
        place=place,
        scope=scope_text(place.keys),
        fields=with_problems(shown, details) if details else shown,
        raw=raw if raw is not None else as_yaml(payload or place.kind["example"]) if place.is_raw else None,
        row=payload,
        row_version=version,
        message=message,
        error=answered,
        is_stale=is_stale,
        names=names,
        suggested=suggestions(*dict.fromkeys(names.values())),
    )


@pages.add("GET", _EDIT, permission="attributes.write", also=QUOTAS_WRITE)
def edit_setting() -> str:
    """The form for a kind at a scope."""
    place = _Place()
    return _form(place, *place.row())


def _refused(shown: str, error: RainbowError) -> Response:
    return Response(shown, status=error.status, mimetype="text/html")


def _version(form: Mapping[str, str]) -> int:
    text = form.get("version", "")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise invalid("version", "is not one: load the form again.")
    return int(text)


@pages.add("POST", _EDIT, permission="attributes.write", also=QUOTAS_WRITE)
def plan_setting(form: Mapping[str, str]) -> Shown:
    """What a change would do; the form again with what is wrong with it."""
    place, version = _Place(), _version(form)
    payload, stored = place.row()
    message, raw = form.get("message", "").strip()[:_MESSAGE_LENGTH], form.get("payload")
    above = {path: leaf for path, leaf in place.above().items() if leaf["value"] is not None}
    fields = None if raw is not None else sent_fields(form, place.kind["schema"])
    try:
        change = _change(place, payload, fields, raw)
        if stored != version:
            raise VersionConflict("The row has changed meanwhile.", details=[{"field": "", "reason": ""}])
        plan = place.write(change, version, dry_run=True)
    except (RainbowError, Invalid) as failure:
        error = translate(failure, "")
        is_stale = isinstance(error, VersionConflict)
        shown = _form(place, payload, stored, fields=fields, raw=raw, message=message, error=error, is_stale=is_stale)
        return _refused(shown, error)
    reason = ["--message", message] if message else []
    g.asked = [line for line in g.get("asked", ()) if line["method"] != "GET"]  # what the plan was asked with
    return render(
        "settings/plan.html",
        title=f"Plan {place.kind['name']}",
        commands=tried_and_done(
            ["update", place.kind["noun"], *scope_options(place.keys), *update_options(change), *reason]
        ),
        place=place,
        scope=scope_text(place.keys),
        before=payload,
        above=above,
        after=_after(place, plan),
        plan=plan,
        change=json.dumps(change),
        row_version=version,
        message=message,
    )


def _change(place: _Place, payload: Any, fields: Sequence[FormField] | None, raw: str | None) -> dict[str, Any]:
    """The change that a form asks for: a whole payload, or a patch."""
    if raw is not None:
        try:
            return {"payload": read_document(raw)}
        except ValueError as error:
            raise invalid(place.kind["payload_key"], str(error)) from None
    assert fields is not None
    change = patch_of(fields, fields_of(place.kind["schema"], payload, {}))
    if not any(change.values()):
        raise invalid(place.kind["payload_key"], "stays as it is: set, unset or inherit a field.")
    return change


def _after(place: _Place, plan: Mapping[str, Any]) -> Any:
    attributes = plan.get("attributes")
    return attributes["matching_attributes"][place.kind["payload_key"]] if attributes else None


@pages.add("POST", _APPLY, permission="attributes.write", also=QUOTAS_WRITE)
def apply_setting(form: Mapping[str, str]) -> Shown:
    """Make a change that was planned; where the row has changed since, the form with both."""
    place, version = _Place(), _version(form)
    message = form.get("message", "").strip()
    change = _planned_change(form.get("change", ""))
    try:
        written = place.write(change, version, message)
    except (RainbowError, Invalid) as failure:
        error = translate(failure, "")
        payload, stored = place.row()
        fields = raw = None
        if "payload" in change:
            raw = as_yaml(change["payload"])
        else:
            fields = with_patch(fields_of(place.kind["schema"], payload, place.above()), change)
        is_stale = isinstance(error, VersionConflict)
        shown = _form(place, payload, stored, fields=fields, raw=raw, message=message, error=error, is_stale=is_stale)
        return _refused(shown, error)
    return go_to(page("settings", "changed", **place.keys, resource_type=place.kind["name"]), _notice(written))


def _planned_change(text: str) -> dict[str, Any]:
    """The change that a plan has sent along, in the shape that `_change` gives it."""
    try:
        change = json.loads(text)
    except (ValueError, RecursionError):
        change = None
    is_payload = isinstance(change, dict) and change.keys() == {"payload"}
    if not is_payload and not (isinstance(change, dict) and _is_patch(change)):
        raise invalid("change", "is not one: fill in the form again.")
    checked: dict[str, Any] = change
    return checked


def _is_patch(change: Mapping[str, Any]) -> bool:
    parts = {"set": dict, "unset": list, "inherit": list}
    return change.keys() == parts.keys() and all(isinstance(change[name], type_) for name, type_ in parts.items())


def _notice(written: Mapping[str, Any]) -> str:
    return f"Applied as revision {written['revision']}." if written["changed"] else "Nothing had to be changed."


@pages.add("GET", _DELETE, permission="attributes.write", also=QUOTAS_WRITE)
def preview_delete() -> str:
    """What deleting a row would do."""
    place = _Place()
    payload, version = place.row()
    if not version:
        raise AttributeNotFound(f"No row of {place.kind['name']} is stored at {scope_text(place.keys)}.")
    return render(
        "settings/delete.html",
        title=f"Delete {place.kind['name']}",
        commands=tried_and_done(["delete", place.kind["noun"], *scope_options(place.keys)]),
        place=place,
        scope=scope_text(place.keys),
        before=payload,
        plan=place.delete(version, dry_run=True),
        row_version=version,
    )


@pages.add("POST", _DELETE, permission="attributes.write", also=QUOTAS_WRITE)
def delete_setting(form: Mapping[str, str]) -> Response:
    """Delete a row, after a confirmation that names its kind."""
    place, version = _Place(), _version(form)
    if is_unconfirmed(form, place.kind["noun"]):
        return shown_again(preview_delete())
    deleted = place.delete(version, form.get("message", "").strip())
    notice = f"Deleted by revision {deleted['revision']}." if deleted["deleted"] else "There was nothing to delete."
    return go_to(page("settings", "changed", **place.keys, resource_type=place.kind["name"]), notice)


@pages.add("GET", "/settings/changed", permission="attributes.read")
def show_changed() -> str:
    """What a change leaves to be done: executions that wait keep what they were created with."""
    place = _Place()
    payload, version = place.row()
    return render(
        "settings/changed.html",
        title=f"{place.kind['name']} at {scope_text(place.keys)}",
        commands=[],
        place=place,
        scope=scope_text(place.keys),
        row=payload,
        row_version=version,
        redecided=_redecide(place, dry_run=True, after=place.after),
        after=place.after,
    )


def _redecide(place: _Place, *, dry_run: bool, after: str = "") -> Any:
    """What becomes of the executions that wait at a scope if they adopt its settings; None where one may not."""
    try:
        selector = {"phase": "QUEUED", **place.keys}
        body: dict[str, Any] = {"selector": selector, "limit": _MOST_FORESEEN if dry_run else _MOST_DECIDED}
        if after:
            body["token"] = after
        return ask("redecide_executions", {"dry_run": dry_run}, body)
    except RainbowError as error:
        if dry_run and error.status == 403:
            return None
        raise


@pages.add("POST", _REDECIDE, permission="executions.write")
def redecide(form: Mapping[str, str]) -> Response:
    """Let the executions that wait at a scope adopt its settings."""
    place = _Place()
    answered = _redecide(place, dry_run=False, after=form.get("after", ""))
    notice = f"{answered['changed']} decided again, {answered['moved']} moved to another cluster."
    if not answered["complete"]:
        return go_to(place.address("changed", after=answered["token"]), f"{notice} Others still wait: go on with them.")
    return go_to(_page_of_decided(place, answered["executions"]), notice)


def _page_of_decided(place: _Place, executions: Sequence[Mapping[str, Any]]) -> str:
    """The page that shows executions that were decided again: whatever phase they are in, for they may run at once."""
    ids = [execution["id"] for execution in executions if execution["changed"]]
    if len(ids) == 1:
        return page("executions", ids[0]["project"], ids[0]["domain"], ids[0]["name"])
    names = ";".join(dict.fromkeys(quoted_value(id["name"]) for id in ids[:_MOST_NAMED]))
    return page("executions", **place.keys, filters=f"value_in(name,{names})" if 0 < len(ids) <= _MOST_NAMED else None)
