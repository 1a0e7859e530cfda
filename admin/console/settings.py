"""Settings: the tree of scopes, what applies at one and why, where something is used, and how two scopes differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.console.answers import ask, ask_if_allowed, asked_query
from admin.console.pages import Pages, render
from admin.console.suggestions import suggestions
from admin.core.settings.scopes import SCOPE_KEYS, Level, Scope, check_scope

pages = Pages("settings")

_CHILDREN = 50
_NO_EFFECT = 50
_WARNINGS = 100
_USES = 25
#: What `uses` is asked about by its name.
_NAMED = ("pool", "label", "cluster", "queue", "queue_tag", "token_pool")
#: The options of rainbowctl for the keys of a scope.
_OPTIONS = {"project": "-p", "domain": "-d", "workflow": "--workflow", "launch_plan": "--launchplan"}


#: The keys of a scope as fields of a form.
SCOPE_FILTERS = {key: key.replace("_", " ").capitalize() for key in SCOPE_KEYS}


def asked_scope(query: Mapping[str, str]) -> dict[str, str]:
    """The keys of the scope that an address names."""
    return {key: query[key] for key in SCOPE_KEYS if key in query}


def scope_of(keys: Mapping[str, str]) -> Scope:
    """The scope of some keys; Invalid where they make none."""
    return check_scope(**keys)


def scope_options(keys: Mapping[str, str]) -> list[str]:
    """The keys of a scope as options of rainbowctl."""
    return [word for key, value in keys.items() for word in (_OPTIONS[key], value)]


def scope_text(keys: Mapping[str, str]) -> str:
    """A scope as a title has it."""
    return str(scope_of(keys))


def kind_called(name: str) -> dict[str, Any]:
    """A kind with its schema, as REST answers it; its errors where there is none of that name."""
    kinds = ask("list_kinds")["kinds"]
    words = {word: kind for kind in kinds for word in (kind["name"], kind["noun"], str(kind["number"]))}
    if name not in words:
        ask("get_effective_attributes", {"resource_type": name})  # which says that there is none, and the closest
    described: dict[str, Any] = words[name]
    return described


@pages.add("GET", "/settings", permission="attributes.read", shows_some=True)
def show_settings() -> str:
    """What applies at a scope, kind by kind, and the scopes right below it."""
    query = asked_query(*SCOPE_KEYS, "search", "token")
    keys = asked_scope(query)
    level = scope_of(keys).level
    paging = {name: query.get(name) for name in ("search", "token")}
    children = ask("list_scopes", {**keys, **paging, "limit": _CHILDREN})
    effective = ask_if_allowed("get_effective_attributes", {**keys, "provenance": True})
    kinds = ask("list_kinds")["kinds"]
    warnings: dict[str, list[Any]] = {}
    if effective is not None and level is not Level.PLATFORM:
        rows = {**keys, "level": level.value, "limit": _WARNINGS}
        for id in ("get_warnings", "list_no_effect"):
            for warning in ask(id, rows)["warnings"]:
                entries = warnings.setdefault(warning["resource_type"], [])
                if all(warning["message"] != entry["message"] for entry in entries):
                    entries.append(warning)
    values = {value["resource_type"]: value for value in effective["values"]} if effective else {}
    return render(
        "settings/show.html",
        title=scope_text(keys),
        commands=[
            ["explain", "all", *scope_options(keys)],
            ["get", "scope", *scope_options(keys), *(["--search", query["search"]] if "search" in query else [])],
            ["get", "no-effect", *scope_options(keys)],
        ],
        keys=keys,
        level=level.value,
        children=children,
        effective=effective,
        kinds=[{**kind, "effective": values.get(kind["name"])} for kind in kinds],
        warnings=warnings,
        suggested=suggestions("projects", "domains"),
        query=query,
    )


@pages.add("GET", "/settings/no-effect", permission="attributes.read", shows_some=True)
def list_no_effect() -> str:
    """The settings that affect no execution, each with the reason."""
    query = asked_query(*SCOPE_KEYS, "resource_type", "limit", "token")
    keys = asked_scope(query)
    noun = [str(kind_called(query["resource_type"])["noun"])] if "resource_type" in query else []
    return render(
        "settings/no_effect.html",
        title="Settings without effect",
        commands=[["get", "no-effect", *noun, *scope_options(keys)]],
        listed=ask("list_no_effect", {"limit": _NO_EFFECT, **query}),
        filters={**SCOPE_FILTERS, "resource_type": "Kind"},
        query=query,
    )


@pages.add("GET", "/settings/compare", permission="attributes.read")
def compare() -> str:
    """How two scopes differ, or one at two revisions."""
    others = tuple(f"other_{key}" for key in SCOPE_KEYS)
    query = asked_query(*SCOPE_KEYS, *others, "at", "other_at", "resource_type")
    keys = asked_scope(query)
    is_asked = any(name in query for name in (*others, "at", "other_at"))
    return render(
        "settings/compare.html",
        title="Compare settings",
        commands=[["compare", "all", *scope_options(keys), *_other_options(query)]] if is_asked else [],
        keys=keys,
        compared=ask("compare_effective_attributes", query) if is_asked else None,
        suggested=suggestions("projects", "domains"),
        query=query,
    )


def _other_options(query: Mapping[str, str]) -> list[str]:
    """The other side of a comparison as options of rainbowctl."""
    options = {"at": "--at", "other_at": "--otherAt"}
    options |= {f"other_{key}": f"--other{key.replace('_', '').capitalize()}" for key in SCOPE_KEYS}
    return [word for name, option in options.items() if name in query for word in (option, query[name])]


@pages.add("GET", "/settings/uses", permission="attributes.read", shows_some=True)
def show_uses() -> str:
    """Where a pool, label and so on is used."""
    query = asked_query(*_NAMED, "resource_type", "field", "value", "token")
    noun = next((name for name in _NAMED if name in query), None)
    uses = ask("get_uses", {**query, "limit": _USES}) if query else None
    return render(
        "settings/uses.html",
        title="Where it is used",
        commands=[["where-used", noun.replace("_", "-"), query[noun]]] if noun else [],
        uses=uses,
        nouns=_NAMED,
        query=query,
    )
