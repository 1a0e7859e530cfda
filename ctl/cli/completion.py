"""Names that the shell completes: those the admin knows, where it answers quickly, and the contexts of this user."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from ctl.cli.session import Session
from ctl.client.contexts import config_path, load_configuration
from ctl.client.errors import RainbowError
from ctl.client.kinds import Kind, built_in

if TYPE_CHECKING:
    from ctl.client.client import Client

T = TypeVar("T")

#: Completion must feel immediate, so the admin gets no longer than this to answer.
_SECONDS = 1.0
_MOST_EXECUTIONS = 100


def project_ids(session: Session) -> list[str]:
    return _ask(session, lambda client: [str(project["id"]) for project in client.projects("ALL")])


def domain_ids(session: Session) -> list[str]:
    return _ask(session, lambda client: [str(domain["id"]) for domain in client.domains()])


def definition_names(session: Session, noun: str) -> list[str]:
    """Names of clusters, pools or labels."""
    return _ask(session, lambda client: [str(definition["name"]) for definition in client.definitions(noun)])


def context_names(session: Session) -> list[str]:
    try:
        return list(load_configuration(config_path(session.typed)).contexts)
    except RainbowError:
        return []


def kind_nouns(session: Session) -> list[str]:
    return [kind.noun for kind in (*built_in(), *declared_kinds(session))]


def declared_kinds(session: Session) -> list[Kind]:
    """The kinds that are not built in, if the admin answers quickly."""
    return [kind for kind in _ask(session, lambda client: client.kinds()) if kind.declared]


def execution_names(session: Session) -> list[str]:
    """The latest executions of the project and domain in force."""

    def question(client: Client) -> list[str]:
        project, domain = session.settings.project.value, session.settings.domain.value
        executions = islice(client.executions(project, domain, limit=_MOST_EXECUTIONS), _MOST_EXECUTIONS)
        return [str(execution["id"]["name"]) for execution in executions]

    return _ask(session, question)


def _ask(session: Session, question: Callable[[Client], Iterable[T]]) -> list[T]:
    try:
        with session.client_with_timeout(_SECONDS) as client:
            return list(question(client))
    except RainbowError:
        return []
