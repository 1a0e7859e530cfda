"""`config`: contexts, which name an admin and the defaults for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ctl.cli.groups import Entry, Group, command
from ctl.cli.lists import Listing, choose, typed_choice
from ctl.cli.options import (
    Argument,
    Option,
    completer,
    domain_option,
    force_option,
    option,
    project_option,
    text_option,
)
from ctl.cli.output import Column, Printer
from ctl.cli.session import Session
from ctl.client import endpoints
from ctl.client.contexts import (
    CONTEXT_KEYS,
    Configuration,
    Setting,
    Settings,
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
        "init": Entry(summary="Write a new file with one context", place="config"),
        "set-context": Entry(summary="Create a context, or change one", place="config"),
        "use-context": Entry(summary="Set the current context", place="config"),
        "get-contexts": Entry(summary="List the contexts", place="config"),
        "current-context": Entry(summary="Show the current context", place="config"),
        "delete-context": Entry(summary="Delete a context", place="config"),
        "view": Entry(summary="Show all settings in force, and where they come from", place="config"),
    },
    examples=[
        "rainbowctl config init --host rainbow.example.org",
        "rainbowctl config set-context staging --endpoint https://rainbow.example.org --token-file ~/staging.token",
        "rainbowctl config use-context staging",
        "rainbowctl config view",
    ],
)


@command(
    help="""Write a new file with one context, `default`, which is in use: for --host, or this machine. --token-file,
    --ca-file, --timeout, -p and -d become part of it. A file that exists is overwritten only if that is confirmed, or
    with --force; `rainbowctl config set-context` adds to it instead.""",
    params=[
        text_option("host", metavar="HOST[:PORT]", help=f"Where the admin listens; {endpoints.DEFAULT} by default."),
        Option(["--insecure"], is_flag=True, help="Plain http. Without it http on this machine, https elsewhere."),
        project_option("Default project."),
        domain_option("Default domain."),
        force_option("Overwrite the file without asking."),
    ],
    examples=[
        "rainbowctl config init",
        "rainbowctl config init --host rainbow.example.org --token-file ~/rainbow.token",
        "rainbowctl config init --host 10.0.0.7:8088 --insecure --force",
    ],
)
def init(session: Session, host: str | None, insecure: bool, force: bool) -> None:
    from ctl.cli.files import check_new

    entry = _typed_entry(session)
    typed = entry.get("endpoint")
    if host and typed and host != typed:
        raise InvalidInput(f"--host says {host}, --endpoint {typed}: keep one of the two.")
    if host and "://" not in host and "/" in host.rstrip("/"):
        raise InvalidInput(f"--host {host} is no host: write HOST or HOST:PORT, or with a path http://HOST/PATH.")
    entry["endpoint"] = _endpoint(host or typed or endpoints.DEFAULT, insecure, has_ca_file="ca_file" in entry)
    path = Path(str(config_path(session.typed).value)).expanduser()
    check_new(path, is_forced=force)
    save_configuration(Configuration(path=path, current_context="default", contexts={"default": entry}))
    _note(session, f"Wrote {path}: the context default, for {entry['endpoint']}, is in use.")


def _endpoint(text: str, is_insecure: bool, *, has_ca_file: bool) -> str:
    """The endpoint with its protocol; flytectl's `dns:///HOST` is taken too."""
    if is_insecure and text.lower().startswith("https://"):
        raise InvalidInput(f"--insecure means http, {text} says https: keep one of the two.")
    host = text.removeprefix("dns:///")
    is_plain = is_insecure and "://" not in host
    return parse_endpoint(f"http://{host}" if is_plain else host, has_ca_file=has_ca_file).url


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
    if not name or not name.isprintable() or name != name.strip():
        raise InvalidInput(f"{name!r} cannot be the name of a context.")
    changes = _typed_entry(session)
    configuration = _configuration(session, may_be_missing=True)
    entry = {key: value for key, value in {**configuration.contexts.get(name, {}), **changes}.items() if value}
    current = configuration.current_context or name
    save_configuration(
        replace(configuration, contexts={**configuration.contexts, name: entry}, current_context=current)
    )
    state = "Changed" if name in configuration.contexts else "Made"
    _note(session, f"{state} context {name} in {configuration.path}.{' It is in use.' if current == name else ''}")


@command(
    help="Set the current context.",
    params=[_NAME],
    examples=["rainbowctl config use-context staging"],
)
def use_context(session: Session, name: str) -> None:
    configuration = _configuration(session)
    configuration.context(name, "as typed")
    save_configuration(replace(configuration, current_context=name))
    _note(session, f"Context {name} is in use.")


@command(
    help="Delete a context.",
    params=[_NAME],
    examples=["rainbowctl config delete-context staging"],
)
def delete_context(session: Session, name: str) -> None:
    configuration = _configuration(session)
    configuration.context(name, "as typed")
    left = {other: entry for other, entry in configuration.contexts.items() if other != name}
    was_current = configuration.current_context == name
    save_configuration(
        replace(configuration, contexts=left, current_context=None if was_current else configuration.current_context)
    )
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


_LISTING = Listing(fields={key: key for key in ("name", *CONTEXT_KEYS)}, order="name")


@command(
    help="List the contexts.",
    params=_LISTING.options(),
    examples=["rainbowctl config get-contexts"],
)
def get_contexts(session: Session, **flags: Any) -> None:
    configuration = session.settings.configuration
    current = session.settings.context.value
    contexts = ({"name": name, **settings} for name, settings in configuration.contexts.items())
    rows = list(choose(session, contexts, flags, _LISTING))
    names = [row["name"] for row in rows]
    document = {
        **({"current_context": current} if current else {}),
        "contexts": {name: configuration.contexts[name] for name in names},
    }
    columns: dict[str, Column] = {
        "CURRENT": lambda row: "*" if row["name"] == current else "",
        "NAME": "name",
        **{key.upper().replace("_", " "): key for key in CONTEXT_KEYS},
    }
    empty = "No contexts match." if typed_choice(flags) else f"There are no contexts in {configuration.path}."
    session.printer.show((f"context/{name}" for name in names), rows, document, columns, empty=empty)


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
        "token": _shown_token(settings),
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
        settled = {key: setting for key, setting in shown.items() if setting.value is not None}
        session.printer.document({k: {"value": s.value, "origin": s.origin} for k, s in settled.items()})


def _shown_token(settings: Settings) -> Setting:
    """Whether a token is given, or got by a login; it is never shown."""
    from ctl.client.logins import find_login

    if settings.may_have_login and find_login(settings) is not None:
        return Setting(value=_MASK, origin="rainbowctl login")
    return replace(settings.token_text, value=_MASK if settings.token_text.value else None)


def _configuration(session: Session, may_be_missing: bool = False) -> Configuration:
    return load_configuration(config_path(session.typed), may_be_missing=may_be_missing)


def _note(session: Session, text: str) -> None:
    """A remark that does not load the settings, because their file may be the one being repaired."""
    Printer(is_quiet=session.is_quiet).note(text)


def _typed_entry(session: Session) -> dict[str, str]:
    """The settings of a context that were typed, checked; paths are absolute, for it is used from anywhere."""
    entry = {key: str(value) for key in CONTEXT_KEYS if (value := session.typed.get(key)) is not None}
    if entry.get("endpoint"):
        parse_endpoint(entry["endpoint"])
    if entry.get("timeout"):
        parse_timeout(entry["timeout"])
    for key in ("token_file", "ca_file"):
        if entry.get(key):
            entry[key] = str(Path(entry[key]).expanduser().absolute())
    return entry
