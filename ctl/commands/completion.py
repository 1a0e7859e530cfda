"""`completion`: scripts for the shells, and the names that are completed from the admin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import click

from ctl.contexts import load_settings
from ctl.errors import RainbowError
from ctl.groups import Command
from ctl.kinds import Kind, built_in
from ctl.options import Argument
from ctl.session import Session

if TYPE_CHECKING:
    from ctl.client import Client

T = TypeVar("T")

#: Whoever presses Tab does not want to wait.
_SECONDS = 1.0
_MOST_EXECUTIONS = 100

_HELP = """Print the completion script of a shell.

Verbs, nouns and flags are completed; where the admin answers within a second, projects, domains, declared kinds,
clusters, pools and labels too.
"""


def completion() -> click.Command:
    def run(session: Session, shell: str) -> None:
        from click.shell_completion import get_completion_class

        from ctl.main import COMPLETE_VARIABLE, PROGRAM, root

        chosen = get_completion_class(shell)
        assert chosen is not None, "the argument's choices are click's shells"
        session.printer.line(chosen(root(), {}, PROGRAM, COMPLETE_VARIABLE).source())

    return Command(
        "completion",
        run,
        help=_HELP,
        params=[Argument("shell", type=click.Choice(["bash", "zsh", "fish"]), explanation="Which shell.")],
        examples=[
            "rainbowctl completion bash > ~/.local/share/bash-completion/completions/rainbowctl",
            'rainbowctl completion zsh > "${fpath[1]}/_rainbowctl"',
            "rainbowctl completion fish > ~/.config/fish/completions/rainbowctl.fish",
        ],
    )


def project_ids(session: Session, incomplete: str) -> list[str]:
    return _starting(incomplete, _ask(session, lambda client: [str(each["id"]) for each in client.projects("ALL")]))


def domain_ids(session: Session, incomplete: str) -> list[str]:
    return _starting(incomplete, _ask(session, lambda client: [str(each["id"]) for each in client.domains()]))


def definition_names(session: Session, noun: str, incomplete: str) -> list[str]:
    """Names of clusters, pools or labels."""
    return _starting(incomplete, _ask(session, lambda client: [str(each["name"]) for each in client.definitions(noun)]))


def context_names(session: Session, incomplete: str) -> list[str]:
    from ctl.contexts import config_path, load_configuration

    try:
        return _starting(incomplete, load_configuration(config_path(session.typed)).contexts)
    except RainbowError:
        return []


def kind_nouns(session: Session, incomplete: str) -> list[str]:
    return _starting(incomplete, (kind.noun for kind in (*built_in(), *declared_kinds(session))))


def declared_kinds(session: Session) -> list[Kind]:
    """The kinds that are not built in, if the admin answers quickly."""
    return [kind for kind in _ask(session, lambda client: client.kinds()) if kind.declared]


def execution_names(session: Session, incomplete: str) -> list[str]:
    """The latest executions of the project and domain in force."""

    def question(client: Client) -> list[str]:
        settings = load_settings(session.typed)
        found = client.executions(settings.project.value, settings.domain.value, limit=_MOST_EXECUTIONS)
        return [str(each["id"]["name"]) for each in islice(found, _MOST_EXECUTIONS)]

    return _starting(incomplete, _ask(session, question))


def _ask(session: Session, question: Callable[[Client], Iterable[T]]) -> list[T]:
    try:
        with session.hasty_client(_SECONDS) as client:
            return list(question(client))
    except RainbowError:
        return []


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
