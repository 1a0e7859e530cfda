"""Definitions that have a form: token pools, groups of users, and roles that are given; planned first, then stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flask import Response

from admin.console.answers import ask, asked_query
from admin.console.commands import tried_and_done
from admin.console.fields import Field, read_form, shown
from admin.console.filters import page
from admin.console.pages import Pages, Shown, go_to, is_unconfirmed, render, shown_again
from admin.console.settings import asked_scope, scope_options
from admin.console.suggestions import suggestions
from admin.console.tries import Tried, nested, tried
from admin.core.settings.scopes import SCOPE_KEYS

pages = Pages("definitions")

_DESCRIPTION = Field("description", "Description", hint="For people.")


@dataclass(frozen=True, kw_only=True)
class Noun:
    """What has a definition with a form."""

    word: str  #: of rainbowctl, and in addresses
    key: str  #: of REST: the field of bodies, and the end of operations' ids
    title: str
    permission: str
    fields: tuple[Field, ...]
    listed: tuple[str, ...]  #: the page of the list, below which that of each one is
    options: Callable[[Mapping[str, Any]], list[str]]  #: what is filled in as options of rainbowctl
    suggested: tuple[str, ...] = ()
    is_of_scope: bool = False  #: whether it belongs to a scope, and is not changed but given and taken away
    done: str = "is defined"
    query: tuple[str, ...] = field(default=("name",))  #: what its address may say

    def home(self, name: str | None = None) -> str:
        """The page of one of them; of those that have none that of all."""
        return page(*self.listed, *([] if not name or self.is_of_scope else [name]))

    def stored(self, name: str) -> tuple[dict[str, str], int]:
        """One that is stored as its form shows it, and its version."""
        stored = ask(f"get_{self.key}", path={"name": name})
        values = {each.name: shown(each, _at(stored, each.name)) for each in self.fields}
        return {name: text for name, text in values.items() if text}, stored.get("version", 0)


def _at(document: Mapping[str, Any], path: str) -> Any:
    value: Any = document
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _pool_options(values: Mapping[str, Any]) -> list[str]:
    flags = {"capacity": "--capacity", "description": "--description"}
    flags |= {f"caps.{level}": f"--{level}Cap" for level in ("project", "namespace", "execution")}
    return [values.get("name", "NAME"), *_options(values, flags)]


def _group_options(values: Mapping[str, Any]) -> list[str]:
    named = [
        word
        for key, flag in (("users", "--user"), ("groups", "--group"))
        for name in values.get(key, ())
        for word in (flag, name)
    ]
    return [values.get("name", "NAME"), *named, *_options(values, {"description": "--description"})]


def _grant_options(values: Mapping[str, Any]) -> list[str]:
    who = _options(values, {"user": "--user", "group": "--group"})
    return [values.get("role", "ROLE"), *who, *scope_options(asked_scope(values))]


def _options(values: Mapping[str, Any], flags: Mapping[str, str]) -> list[str]:
    return [word for name, flag in flags.items() if name in values for word in (flag, str(values[name]))]


_NOUNS = (
    Noun(
        word="token-pool",
        key="token_pool",
        title="token pool",
        permission="token_pools.write",
        fields=(
            Field("name", "Name", required=True),
            Field("capacity", "Capacity", "integer", required=True, hint="How many tokens there are."),
            Field("caps.project", "Cap of each project", "integer", hint="The most that each may hold."),
            Field("caps.namespace", "Cap of each project and domain", "integer"),
            Field("caps.execution", "Cap of each execution", "integer"),
            _DESCRIPTION,
        ),
        listed=("token-pools",),
        options=_pool_options,
    ),
    Noun(
        word="group",
        key="group",
        title="group of users",
        permission="groups.write",
        fields=(
            Field("name", "Name", required=True),
            Field("users", "Users", "words", hint="With spaces between."),
            Field("groups", "Groups", "words", hint="Whose members are members too."),
            _DESCRIPTION,
        ),
        listed=("access", "groups"),
        options=_group_options,
    ),
    Noun(
        word="grant",
        key="grant",
        title="grant",
        permission="grants.write",
        fields=(
            Field("role", "Role", required=True, suggestions="roles"),
            Field("user", "User", suggestions="users", hint="A user or a group."),
            Field("group", "Group", suggestions="groups"),
            Field("project", "Project", suggestions="projects", hint="Left empty with the domain: everywhere."),
            Field("domain", "Domain", suggestions="domains"),
            Field("workflow", "Workflow"),
            Field("launch_plan", "Launch plan"),
        ),
        listed=("access", "grants"),
        options=_grant_options,
        suggested=("roles", "users", "groups", "projects", "domains"),
        is_of_scope=True,
        done="is given",
        query=("user", "group", "role", *SCOPE_KEYS),
    ),
)


def _add(noun: Noun) -> None:
    own = f"/define/{noun.word}"

    @pages.add("GET", own, permission=noun.permission, shows_some=noun.is_of_scope)
    def show() -> str:
        query = asked_query(*noun.query)
        if "name" not in query or noun.is_of_scope:
            return _form(noun, query, version=0)
        values, version = noun.stored(query["name"])
        return _form(noun, values, version=version)

    @pages.add("POST", own, permission=noun.permission, shows_some=noun.is_of_scope)
    def define(form: Mapping[str, str]) -> Shown:
        version = int(text) if (text := form.get("version", "")).isascii() and text.isdigit() and len(text) < 19 else 0
        read = read_form(noun.fields, form)
        wrong = dict(read.problems)
        if version and read.values.get("name") != form.get("of"):
            wrong.setdefault("name", "A definition keeps its name: leave it as it is, or make a new one.")
        if wrong:
            return shown_again(_form(noun, form, version=version, problems=wrong))
        is_plan = form.get("action") != "apply"
        made = _write(noun, read.values, version, form.get("message", "").strip(), dry_run=is_plan)
        if made.answer is None or is_plan:
            problems = made.problems(each.name for each in noun.fields)
            return Response(
                _form(noun, form, version=version, made=made, problems=problems),
                status=made.status,
                mimetype="text/html",
            )
        name = None if noun.is_of_scope else str(read.values["name"])
        what = noun.title.capitalize() if name is None else f"{noun.title.capitalize()} {name}"
        is_changed = made.answer["changed"]
        return go_to(noun.home(name), f"{what} {noun.done}." if is_changed else f"{what} was so before.")

    @pages.add("GET", f"{own}/delete", permission=noun.permission, shows_some=noun.is_of_scope)
    def preview_deletion() -> str:
        return _deletion(noun, asked_query("name").get("name", ""))

    @pages.add("POST", f"{own}/delete", permission=noun.permission, shows_some=noun.is_of_scope)
    def delete(form: Mapping[str, str]) -> Shown:
        name = asked_query("name").get("name", "")
        if is_unconfirmed(form, name):
            return shown_again(_deletion(noun, name))
        message = form.get("message", "").strip()
        ask(f"delete_{noun.key}", body={"message": message} if message else {}, path={"name": name})
        return go_to(noun.home(), f"{name} is deleted.")


def _write(noun: Noun, values: Mapping[str, Any], version: int, message: str, *, dry_run: bool) -> Tried:
    """Define it, or say what that would do; one that is stored only if it is still of that version."""
    body = {noun.key: nested(values), **({"message": message} if message else {})}
    if version:
        path = {"name": str(values.get("name", ""))}
        return tried(ask, f"put_{noun.key}", {"dry_run": dry_run}, body, path=path, version=version)
    return tried(ask, f"create_{noun.key}", {"dry_run": dry_run}, body)


def _form(
    noun: Noun,
    values: Mapping[str, str],
    *,
    version: int,
    made: Tried | None = None,
    problems: Mapping[str, str] | None = None,
) -> str:
    read = read_form(noun.fields, values).values
    verb = "Give a role" if noun.is_of_scope else f"Change {noun.title}" if version else f"New {noun.title}"
    return render(
        "definitions/form.html",
        title=verb,
        commands=tried_and_done(["update" if version else "create", noun.word, *noun.options(read)]),
        noun=noun,
        fields=noun.fields,
        values=values,
        row_version=version,
        made=made or Tried(),
        problems=problems or {},
        suggested=suggestions(*noun.suggested),
    )


def _deletion(noun: Noun, name: str) -> str:
    return render(
        "definitions/delete.html",
        title=f"Delete {noun.title} {name}",
        commands=tried_and_done(["delete", noun.word, name]),
        noun=noun,
        name=name,
        stored=ask(f"get_{noun.key}", path={"name": name}),
        tried=tried(ask, f"delete_{noun.key}", {"dry_run": True}, {}, path={"name": name}),
    )


for _noun in _NOUNS:
    _add(_noun)
