"""`register files`: any number of workflows and launch plans from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import click

from ctl.cli.groups import command
from ctl.cli.options import MESSAGE, Argument, domain_option, dry_run_option, option, project_option
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.calls.registrations import LAUNCH_PLAN
from ctl.client.errors import ClientError, InvalidInput, RainbowError, Unreachable, common_exit_code
from ctl.client.words import fold
from ctl.commands.registrations.create import (
    ACTIVATE,
    DOCUMENTS,
    VERSION,
    Registrar,
    activated,
    complete,
)
from ctl.files.registrations import Registration, read_registrations
from ctl.files.run_settings import REFUSED, settings_spec

_HELP = f"""Register workflows and launch plans from files and directories.

Each document has `kind: workflow` or `kind: launchplan`; a file holds any number of them, separated by `---`. Workflows
are registered before launch plans, in any order of the files. All documents are checked before anything is sent: if one
has a mistake, nothing is registered.

{DOCUMENTS}

Stops at the first document that the admin refuses; with --continueOnError it registers the others. The exit status is
1 if one was refused.
"""

_SUCCESS, _FAILED, _SKIPPED = "Success", "Failed", "Skipped"

#: Flags of flytectl's that have no meaning here, and why.
_REFUSED = {
    "archive": "documents are read from files and directories: unpack the archive",
    "force": "a registered version is never changed: choose a new --version",
    "sourceUploadPath": "nothing is uploaded: jobs name their image or command",
    "destinationDirectory": "nothing is uploaded: set the job's working_directory",
    "enableSchedule": REFUSED["schedule"],
}


def _refused_option(word: str, reason: str) -> click.Option:
    def refuse(_ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value:
            raise InvalidInput(f"--{word} of flytectl is not supported: {reason}.")

    takes_value = word in {"sourceUploadPath", "destinationDirectory"}
    return option(word, is_flag=not takes_value, hidden=True, expose_value=False, callback=refuse, is_eager=True)


@command(
    help=_HELP,
    params=[
        Argument(
            "files",
            nargs=-1,
            required=True,
            metavar="FILE|DIR|-…",
            explanation="Files, directories, or - for stdin.",
        ),
        project_option("Project of documents without one."),
        domain_option("Domain of documents without one."),
        VERSION,
        ACTIVATE,
        option("continueOnError", is_flag=True, help="Continue after a refusal."),
        MESSAGE,
        dry_run_option("Let the admin check them, and register nothing."),
        option(
            "assumableIamRole",
            parameter="iam_role",
            metavar="ARN",
            help="IAM role of launch plans without an identity.",
        ),
        option(
            "k8sServiceAccount",
            "k8ServiceAccount",
            parameter="service_account",
            metavar="NAME",
            help="Kubernetes service account of launch plans without an identity.",
        ),
        option(
            "outputLocationPrefix",
            parameter="output_prefix",
            metavar="URL",
            help="Output prefix of launch plans without one.",
        ),
        *(_refused_option(word, reason) for word, reason in _REFUSED.items()),
    ],
    examples=[
        "rainbowctl register files train.yaml -p flytesnacks -d development",
        "rainbowctl register files flows/ -p flytesnacks -d staging --version v2 --activate",
        "rainbowctl register files flows/ -p flytesnacks -d staging --version v2 --dryRun",
        "printf 'kind: workflow\\nname: hello\\njob: {command: [echo, hi]}\\n' | "
        "rainbowctl register files - -p flytesnacks -d development --version v1",
    ],
)
def register_files(session: Session, files: tuple[str, ...], **flags: Any) -> None:
    items = [_with_defaults(item, flags) for item in complete(session, read_registrations(files), flags)]
    results = _register_all(session, items, flags)
    failures = [result.error for result in results if result.error is not None]
    if flags["dry_run"] and not failures:
        session.printer.note("Dry run: nothing was registered.")
    _show(session, results)
    _raise(failures, len(results))


def _raise(failures: Sequence[ClientError], number: int) -> None:
    """Raise one error for what could not be registered."""
    if not failures:
        return
    if isinstance(failures[-1], Unreachable):
        raise failures[-1]
    error = RainbowError(f"{len(failures)} of {number} could not be registered.")
    error.exit_code = common_exit_code(failures)
    raise error


def _with_defaults(item: Registration, flags: Mapping[str, Any]) -> Registration:
    """A launch plan with the defaults of the command line for fields that it leaves out."""
    if item.noun != LAUNCH_PLAN:
        return item
    keys = {
        "kube_service_acct": "service_account",
        "iam_role_arn": "iam_role",
        "output_location_prefix": "output_prefix",
    }
    defaults = settings_spec({key: flags[flag] for key, flag in keys.items()})
    return activated(replace(item, spec={**defaults, **item.spec}), flags["activate"])


@dataclass(frozen=True, kw_only=True)
class _Result:
    item: Registration
    status: str
    info: str
    answer: Document | None = None
    error: ClientError | None = None  #: why it failed

    def document(self) -> Document:
        return {
            "kind": self.item.noun,
            "id": self.item.id.document(),
            "position": self.item.place,
            "status": self.status,
            "info": self.info,
            **({"created": bool(self.answer.get("created"))} if self.answer else {}),
            **({"warnings": self.answer["warnings"]} if self.answer and self.answer.get("warnings") else {}),
        }


def _register_all(session: Session, items: list[Registration], flags: Mapping[str, Any]) -> list[_Result]:
    """The result of each document."""
    registrar = Registrar(session, message=flags["message"], dry_run=flags["dry_run"])
    results: list[_Result] = []
    failure: ClientError | None = None
    for item in items:
        if failure is not None and (isinstance(failure, Unreachable) or not flags["continue_on_error"]):
            results.append(_Result(item=item, status=_SKIPPED, info="not sent: another one failed before it"))
            continue
        try:
            done = registrar.register(item)
            results.append(_Result(item=item, status=_SUCCESS, info=done.info, answer=done.answer))
        except ClientError as error:
            failure = error
            results.append(_Result(item=item, status=_FAILED, info=error.in_one_line(), error=error))
    return results


def _show(session: Session, results: list[_Result]) -> None:
    names = ("/".join([fold(result.item.noun), *result.item.id.document().values()]) for result in results)
    columns = {"NAME": attrgetter("item.title"), "STATUS": attrgetter("status"), "ADDITIONAL INFO": attrgetter("info")}
    session.printer.show(names, results, [result.document() for result in results], columns)
