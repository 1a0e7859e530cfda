"""`config`: contexts, which name an admin and the defaults for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ctl.cli.groups import Entry, Group, command
from ctl.cli.options import Argument, completer, domain_option, option, project_option
from ctl.cli.output import Column, Printer
from ctl.cli.session import Session
from ctl.client.contexts import (
    CONTEXT_KEYS,
    Configuration,
    Setting,
    config_path,
    load_configuration,
    parse_timeout,
    save_configuration,
)
from ctl.client.endpoints import parse_endpoint
from ctl.client.errors import InvalidInput, NothingSet

_MASK = "********"
_NAME = Argument("name", explanation="Name of the context.", shell_complete=completer("context_names"))


config = Group(
    "config",
    help="Contexts: named sets of endpoint, token, project and domain, kept in a file.",
    entries={
        "set-context": Entry(summary="Create a context, or change one", place="config"),
        "use-context": Entry(summary="Set the current context", place="config"),
        "get-contexts": Entry(summary="List the contexts", place="config"),
        "current-context": Entry(summary="Show the current context", place="config"),
        "delete-context": Entry(summary="Delete a context", place="config"),
        "view": Entry(summary="Show all settings in force, and where they come from", place="config"),
    },
    examples=[
        "rainbowctl config set-context staging --endpoint https://rainbow.example.org --token-file ~/staging.token",
        "rainbowctl config use-context staging",
        "rainbowctl config view",
    ],
)


@command(
    help="Create a context, or change its settings: --endpoint, --token-file, --ca-file, --project, --domain, "
    "--timeout. An empty value removes a setting. The first context becomes the current one.",
    params=[
        _NAME,
        project_option("Default project."),
        domain_option("Default domain."),
    ],
    examples=[
        "rainbowctl config set-context local --endpoint http://127.0.0.1:8088",
        "rainbowctl config set-context staging --project flyteexamples --domain development",
    ],
)
def set_context(session: Session, name: str) -> None:
    changes = {key: str(value) for key in CONTEXT_KEYS if (value := session.typed.get(key)) is not None}
    _check(name, changes)
    for key in ("token_file", "ca_file"):
        if changes.get(key):
            # The context is used from other directories too.
            changes[key] = str(Path(changes[key]).expanduser().absolute())
    known = _configuration(session, may_be_missing=True)
    entry = {key: value for key, value in {**known.contexts.get(name, {}), **changes}.items() if value}
    current = known.current_context or name
    save_configuration(replace(known, contexts={**known.contexts, name: entry}, current_context=current))
    state = "Changed" if name in known.contexts else "Made"
    _note(session, f"{state} context {name} in {known.path}.{' It is in use.' if current == name else ''}")


@command(
    help="Set the current context.",
    params=[_NAME],
    examples=["rainbowctl config use-context staging"],
)
def use_context(session: Session, name: str) -> None:
    known = _configuration(session)
    known.context(name, "as typed")
    save_configuration(replace(known, current_context=name))
    _note(session, f"Context {name} is in use.")


@command(
    help="Delete a context.",
    params=[_NAME],
    examples=["rainbowctl config delete-context staging"],
)
def delete_context(session: Session, name: str) -> None:
    known = _configuration(session)
    known.context(name, "as typed")
    left = {other: entry for other, entry in known.contexts.items() if other != name}
    was_current = known.current_context == name
    save_configuration(replace(known, contexts=left, current_context=None if was_current else known.current_context))
    _note(session, f"Deleted context {name}.{' No context is in use now.' if was_current else ''}")


@command(
    help="Show the current context.",
    examples=["rainbowctl config current-context"],
)
def current_context(session: Session) -> None:
    context = session.settings.context
    if not context.value:
        raise NothingSet("No context is in use: make one with `rainbowctl config set-context NAME --endpoint URL`.")
    if session.printer.format in {"json", "yaml"}:
        session.printer.document({"current_context": context.value, "origin": context.origin})
    else:
        session.printer.line(context.value)


@command(
    help="List the contexts.",
    examples=["rainbowctl config get-contexts"],
)
def get_contexts(session: Session) -> None:
    known = session.settings.configuration
    current = session.settings.context.value
    document = {**({"current_context": current} if current else {}), "contexts": known.contexts}
    columns: dict[str, Column] = {
        "CURRENT": lambda name: "*" if name == current else "",
        "NAME": str,
        **{key.upper().replace("_", " "): _context_field(known, key) for key in CONTEXT_KEYS},
    }
    names = list(known.contexts)
    empty = f"There are no contexts in {known.path}."
    session.printer.show((f"context/{name}" for name in names), names, document, columns, empty=empty)


def _context_field(known: Configuration, key: str) -> Column:
    return lambda name: known.contexts[name].get(key)


@command(
    help="Show all settings in force and where they come from: a flag, a variable, the context, or the default.",
    params=[
        project_option(),
        domain_option(),
        option("showOrigin", is_flag=True, expose_value=False, hidden=True),
    ],
    examples=["rainbowctl config view", "rainbowctl --context staging config view -o json"],
)
def view(session: Session) -> None:
    settings = session.settings
    shown = {
        "config": Setting(value=str(settings.configuration.path), origin=config_path(session.typed).origin),
        "context": settings.context,
        "endpoint": settings.endpoint,
        "token": replace(settings.token_text, value=_MASK if settings.token_text.value else None),
        "token_file": settings.token_file,
        "ca_file": settings.ca_file,
        "project": settings.project,
        "domain": settings.domain,
        "timeout": settings.timeout,
        "output": replace(settings.output, value=session.printer.format),
    }
    if session.printer.is_table or session.printer.format == "name":
        rows = [[key, setting.value or "", setting.origin] for key, setting in shown.items()]
        session.printer.table(["SETTING", "VALUE", "FROM"], rows)
    else:
        known = {key: setting for key, setting in shown.items() if setting.value is not None}
        session.printer.document({k: {"value": s.value, "origin": s.origin} for k, s in known.items()})


def _configuration(session: Session, may_be_missing: bool = False) -> Configuration:
    return load_configuration(config_path(session.typed), may_be_missing=may_be_missing)


def _note(session: Session, text: str) -> None:
    """A remark that does not load the settings, because their file may be the one being repaired."""
    Printer(is_quiet=session.is_quiet).note(text)


def _check(name: str, changes: Mapping[str, str]) -> None:
    if not name or not name.isprintable() or name != name.strip():
        raise InvalidInput(f"{name!r} cannot be the name of a context.")
    if changes.get("endpoint"):
        parse_endpoint(changes["endpoint"])
    if changes.get("timeout"):
        parse_timeout(changes["timeout"])
