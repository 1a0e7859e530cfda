"""The scope that a command is for: from what was typed, the variables and the context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctl.cli.session import Session
from ctl.client.errors import InvalidInput
from ctl.client.kinds import Kind
from ctl.client.scopes import Scope, check_level, check_name


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


def scope_filters(session: Session, flags: Mapping[str, Any]) -> dict[str, str]:
    """The scope keys typed on this command line, each a filter of its own."""
    filters = {key: name for key, name in typed_scope(session, flags).items() if name is not None}
    for key, name in filters.items():
        check_name(key, name)
    return filters


def default_scope(session: Session) -> dict[str, str | None]:
    """The default project and domain, from variables or the context."""
    return {"project": session.settings.project.value, "domain": session.settings.domain.value}


def resolve_scope(session: Session, flags: Mapping[str, Any]) -> Scope:
    """The scope a command is for: what was typed, completed by the defaults."""
    typed = {key: name for key, name in typed_scope(session, flags).items() if name is not None}
    defaults = {key: name for key, name in default_scope(session).items() if name is not None}
    return Scope(**(defaults | typed))


def project_domain(session: Session) -> tuple[str, str]:
    """The project and the domain a command is for, which needs both."""
    scope = resolve_scope(session, {})
    for key, flag in (("project", "-p PROJECT"), ("domain", "-d DOMAIN")):
        if getattr(scope, key) is None:
            raise InvalidInput(f"In which {key}? Give {flag}, or set one in the context.")
    return str(scope.project), str(scope.domain)


def scope_for(session: Session, kind: Kind, flags: Mapping[str, Any]) -> Scope:
    """As `resolve_scope`, checked against the levels of a kind."""
    scope = resolve_scope(session, flags)
    check_level(scope, kind.noun, kind.levels)
    return scope


def place(kind: Kind, scope: Scope) -> str:
    """A row in words: `execution-cluster-label at project flyteexamples, domain development`."""
    return f"{kind.noun} at {scope.describe()}"
