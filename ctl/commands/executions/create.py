"""`create execution`: run a launch plan, a workflow, a job of one's own, or an earlier execution again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ctl.cli.groups import command
from ctl.cli.options import Option, dry_run_option, option, require_text, text_option
from ctl.cli.output import Printer
from ctl.cli.session import Session, local_user
from ctl.client.answers import Document
from ctl.client.errors import AlreadyCreated, InvalidInput, NotFound
from ctl.client.executions import Execution, ExecutionId
from ctl.commands.executions.options import execution_id
from ctl.commands.executions.requests import (
    RUN_FLAGS,
    RUN_PARAMETERS,
    RunCommand,
    requests_from_flags,
    send_request,
)
from ctl.commands.executions.tables import print_execution
from ctl.files.execution_requests import Request, build_repeat

#: The admin's limit, less what the number of a batch adds.
_LONGEST_KEY = 200

_HELP = """Create an execution: the admin resolves its settings and decides where it runs.

It runs a launch plan (--launchplan), a workflow without one (--workflow, --task), an ad hoc job (a command after --, or
--image), a jobspec (--jobspec), a file (--execFile), or an earlier execution again (--relaunch, --recover). -p and -d
name the project and domain of the launch plan or workflow; it runs there too, unless --targetProject or --targetDomain
is given.

An --execFile takes flytectl's keys, workflow, task, version, inputs, envs, kubeServiceAcct, iamRoleARN, targetProject,
targetDomain, clusterPool, targetExecutionCluster and overwriteCache, and in addition name, launchplan, job, jobspec,
cluster, executionClusterLabel, strategy, rules, labels, annotations, interruptible, maxParallelism,
outputLocationPrefix, qualityOfService, securityContext, authRole, executionEnvAssignments, tokenPools and retry (of
attempts, backoff, retryOn and onLost). `workflow: X` names the launch plan X as in flytectl, or the workflow X if there
is no such launch plan. Flags override the file; a -p or -d that contradicts its targetProject or targetDomain is
refused.

A file may hold several documents, separated by `---`, or a JSON list of them: each is one execution, and flags apply to
all of them. They are sent in batches, and each has its own result: created, exists, or failed with the reason. The exit
status is 0 if none failed, else that of the failures, or 1 if these differ; it is 8 if all of them existed already. If
the connection to the admin breaks, run the command again with the --idempotencyKey that it prints: it continues, and
creates nothing twice.

--relaunch and --recover copy the earlier execution; --clusterPool, --executionClusterLabel, --cluster, --strategy,
--rule, --overwriteCache and --input change the copy. --recover is for an execution that did not succeed.

Creating an execution again with the same NAME and the same request starts nothing, and the exit status is 8. With
--watch or --logs, the exit status is 9 if the execution does not succeed.
"""


def _checked_key(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    require_text(ctx, param, value)
    if value is not None and not (value.isascii() and value.isprintable() and len(value) <= _LONGEST_KEY):
        reason = f"must be printable ASCII, at most {_LONGEST_KEY} characters."
        raise click.BadParameter(reason, ctx, param)
    return value


@command(
    cls=RunCommand,
    help=_HELP,
    params=[
        *RUN_PARAMETERS,
        text_option("relaunch", metavar="NAME", help="Run an earlier execution again."),
        text_option("recover", metavar="NAME", help="Run an execution that did not succeed again."),
        dry_run_option("Let the admin check and decide everything, and create nothing."),
        option(
            "idempotencyKey",
            metavar="KEY",
            callback=_checked_key,
            help="Create executions without a name only once under this key, however often they are sent.",
        ),
        Option(["--watch"], is_flag=True, help="Show each change until it is finished."),
        Option(["--logs"], is_flag=True, help="Show its output until it is finished."),
    ],
    examples=[
        "rainbowctl create execution -p flytesnacks -d development --launchplan train --input epochs=5",
        "rainbowctl create execution nightly -p flytesnacks -d development --execFile exec.yaml --clusterPool gpu",
        "rainbowctl create execution -p flytesnacks -d development --execFile sweep.yaml -o json",
        "rainbowctl create execution -p flytesnacks -d development --cpu 2 --memory 4Gi -- python train.py --fast",
        "rainbowctl create execution -p flytesnacks -d development --jobspec job.yaml --watch",
        "rainbowctl create execution -p flytesnacks -d development --retries 2 --logs -- make data",
        "rainbowctl create execution -p flytesnacks -d development --relaunch nightly --clusterPool spare",
        "rainbowctl create execution -p flytesnacks -d development --workflow train --dryRun -o yaml",
    ],
)
def create_execution(session: Session, **flags: Any) -> None:
    _check_following(session, flags)
    how = _repeats(flags)
    if how:
        _report(session, _repeat(session, how, flags), flags, is_named=flags["name"] is not None)
        return
    request, *others = requests = requests_from_flags(session, flags)
    if others:
        from ctl.commands.executions.create_many import create_many

        create_many(session, requests, flags)
    else:
        _report(session, _create(session, request, flags), flags, is_named="name" in request.body)


def _check_following(session: Session, flags: Mapping[str, Any]) -> None:
    if not flags["logs"]:
        return
    if flags["watch"]:
        raise InvalidInput("--watch shows the changes of the execution, --logs its output: keep one of the two.")
    if session.typed.get("output") not in (None, "table"):
        raise InvalidInput("--logs prints the output of the execution unchanged: leave out -o.")


def _repeats(flags: Mapping[str, Any]) -> str | None:
    named = [how for how in ("relaunch", "recover") if flags[how]]
    if len(named) > 1:
        raise InvalidInput("--relaunch and --recover are two ways to run it again: keep one.")
    return named[0] if named else None


def _repeat(session: Session, how: str, flags: Mapping[str, Any]) -> Document:
    request = build_repeat(flags, how, execution_id(session, flags[how]), RUN_FLAGS)
    options: Any = {"key": _key(request, flags), "claimed_by": local_user(), "dry_run": flags["dry_run"]}
    return session.client.repeat_execution(how, request, **options)


def _create(session: Session, request: Request, flags: Mapping[str, Any]) -> Document:
    key = _key(request.body, flags)

    def send(request: Request) -> Document:
        return session.client.create_execution(request.body, key=key, claimed_by=local_user(), dry_run=flags["dry_run"])

    return send_request(session, request, send)


def _key(body: Document, flags: Mapping[str, Any]) -> str | None:
    key: str | None = flags["idempotency_key"]
    if key is not None and "name" in body:
        raise InvalidInput(f"{body['name']} is created only once because it has a name: leave out --idempotencyKey.")
    return key


def _report(session: Session, answer: Document, flags: Mapping[str, Any], *, is_named: bool) -> None:
    printer = session.printer
    id = ExecutionId.from_document(answer["id"])
    execution = Execution.from_document({"id": answer["id"], **(answer.get("execution") or {})})
    session.printer.warnings(answer.get("warnings") or [])
    if not answer.get("created") and not flags["dry_run"]:
        print_execution(session, execution, answer)
        raise AlreadyCreated(_exists(printer, execution))
    if (flags["logs"] or (printer.is_table and flags["watch"])) and not flags["dry_run"]:
        printer.note(f"Created execution {id}.")
    else:
        print_execution(session, execution, answer)
    if flags["dry_run"]:
        is_there = is_named and _is_stored(session, id)
        printer.note(
            f"Dry run: nothing was created. {_exists(printer, execution) if is_there else 'This is what it would be.'}"
        )
        return
    if flags["watch"]:
        from ctl.commands.executions.follow import check_success, watch_execution

        check_success(watch_execution(session, id))
    elif flags["logs"]:
        from ctl.commands.executions.follow import check_success
        from ctl.commands.executions.logs import follow_logs

        check_success(follow_logs(session, id, start=1))
    elif printer.is_table:
        printer.note(f"Created execution {id}. Why there: rainbowctl explain execution {id.flags}")


def _is_stored(session: Session, id: ExecutionId) -> bool:
    try:
        session.client.execution(id)
    except NotFound:
        return False
    return True


def _exists(printer: Printer, execution: Execution) -> str:
    return (
        f"Execution {execution.id} exists already: it is {execution.phase}, created "
        f"{printer.when(execution.created_at)} by the same request. Nothing was started."
    )
