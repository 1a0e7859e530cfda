"""The commands of one kind: what `get`, `update` and `delete` do with it."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Any

import click

from ctl.answers import Document
from ctl.errors import InvalidInput
from ctl.kinds import Kind
from ctl.scopes import Scope, check_level
from ctl.session import Session


def attribute_command(verb: str, kind: Kind) -> click.Command:
    """The command for one verb and one kind."""
    if verb == "get":
        from ctl.commands.attribute_reads import get_attribute

        return get_attribute(kind)
    if verb == "update":
        from ctl.commands.attribute_updates import update_attribute

        return update_attribute(kind)
    from ctl.commands.attribute_deletes import delete_attribute

    return delete_attribute(kind)


def typed_scope(session: Session, flags: Mapping[str, Any]) -> dict[str, str | None]:
    """The scope keys typed on this command line; defaults play no part."""
    argument, flag = flags.get("workflow"), flags.get("workflow_flag")
    if argument is not None and flag is not None and argument != flag:
        raise InvalidInput(f"Two workflows are named, {argument} and {flag} (--workflow): keep one.")
    return {
        "project": session.typed.get("project"),
        "domain": session.typed.get("domain"),
        "workflow": argument if argument is not None else flag,
        "launch_plan": flags.get("launch_plan"),
    }


def default_scope(session: Session) -> dict[str, str | None]:
    """Project and domain to take where none is typed: from variables or the context."""
    return {"project": session.settings.project.value, "domain": session.settings.domain.value}


def resolve_scope(session: Session, flags: Mapping[str, Any]) -> Scope:
    """The scope a command is for: what was typed, completed by the defaults."""
    typed = {key: name for key, name in typed_scope(session, flags).items() if name is not None}
    defaults = {key: name for key, name in default_scope(session).items() if name is not None}
    return Scope(**(defaults | typed))


def scope_for(session: Session, kind: Kind, flags: Mapping[str, Any]) -> Scope:
    """As `resolve_scope`, checked against the levels of a kind."""
    scope = resolve_scope(session, flags)
    check_level(scope, kind.noun, kind.levels)
    return scope


def local_user() -> str | None:
    """Who claims a change: the name of the local user, where the system knows one."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


def warning_text(warning: Document) -> str:
    """One warning of the admin's in words."""
    text = str(warning.get("message", warning.get("code", "")))
    closest = [str(word) for word in warning.get("closest") or [] if str(word) not in text]
    return f"{text} Closest: {', '.join(closest)}." if closest else text


def place(kind: Kind, scope: Scope) -> str:
    """A row in words: `execution-cluster-label at project flyteexamples, domain development`."""
    return f"{kind.noun} at {scope.describe()}"
