"""`create execution`: run a launch plan, a workflow, a job of one's own, or an earlier execution again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ctl.answers import Document
from ctl.commands.execution_options import RunCommand, execution_id, run_parameters, text_option
from ctl.commands.execution_tables import show_executions, tell_warnings
from ctl.commands.scopes import resolve_scope
from ctl.errors import AlreadyCreated, InvalidInput, InvalidRequest, NotFound
from ctl.executions import Execution, ExecutionId
from ctl.options import Option, dry_run_option
from ctl.session import Session

if TYPE_CHECKING:
    from ctl.execution_requests import Request

_HELP = """Create an execution: the admin resolves its settings, decides where it runs, and says so.

What runs is a launch plan (--launchplan), a workflow without one (--workflow, --task), a job of its own (a command
after --, or --image), a jobspec (--jobspec), what a file says (--execFile), or what an earlier execution ran
(--relaunch, --recover). -p and -d say where the launch plan or workflow is registered; it runs there too, unless
--targetProject or --targetDomain say otherwise.

An --execFile has flytectl's keys, workflow, task, version, inputs, envs, kubeServiceAcct, iamRoleARN, targetProject,
targetDomain, clusterPool, targetExecutionCluster and overwriteCache, and ours: launchplan, job, jobspec, cluster,
executionClusterLabel, labels, annotations, interruptible, maxParallelism, outputLocationPrefix, qualityOfService,
securityContext, executionEnvAssignments and retry (of attempts, backoff, retryOn and onLost). `workflow: X` names the
launch plan X as in flytectl, and the workflow X itself where there is no such launch plan. Flags go before the file.

--relaunch and --recover keep everything of the earlier execution but what --clusterPool, --executionClusterLabel,
--cluster, --overwriteCache and --input change; --recover is for one that did not succeed.

Creating the same execution once more, by the same NAME, starts nothing: that is said, and the exit status is 8. With
--watch or --logs the exit status is 9 if it does not succeed.
"""


def create_execution() -> click.Command:
    def run(session: Session, **flags: Any) -> None:
        _check_following(session, flags)
        how = _repeats(flags)
        answer = _repeat(session, how, flags) if how else _create(session, flags)
        _report(session, answer, flags)

    return RunCommand(
        "execution",
        run,
        help=_HELP,
        takes=("project", "domain"),
        params=[
            *run_parameters(),
            text_option(["--relaunch"], "relaunch", "NAME", "Run an earlier execution again."),
            text_option(["--recover"], "recover", "NAME", "Run one again that did not succeed."),
            dry_run_option("Let the admin check and decide everything, and create nothing."),
            Option(["--watch"], is_flag=True, help="Show what becomes of it until it is finished."),
            Option(["--logs"], is_flag=True, help="Show what it prints until it is finished."),
        ],
        examples=[
            "rainbowctl create execution -p flytesnacks -d development --launchplan train --input epochs=5",
            "rainbowctl create execution nightly -p flytesnacks -d development --execFile exec.yaml --clusterPool gpu",
            "rainbowctl create execution -p flytesnacks -d development --cpu 2 --memory 4Gi -- python train.py --fast",
            "rainbowctl create execution -p flytesnacks -d development --jobspec job.yaml --watch",
            "rainbowctl create execution -p flytesnacks -d development --retries 2 --logs -- make data",
            "rainbowctl create execution -p flytesnacks -d development --relaunch nightly --clusterPool spare",
            "rainbowctl create execution -p flytesnacks -d development --workflow train --dryRun -o yaml",
        ],
    )


def _check_following(session: Session, flags: Mapping[str, Any]) -> None:
    if not flags["logs"]:
        return
    if flags["watch"]:
        raise InvalidInput("--watch shows what becomes of the execution, --logs what it prints: keep one of the two.")
    if session.typed.get("output") not in (None, "table"):
        raise InvalidInput("--logs prints what the execution prints, as it is: leave out -o.")


def _repeats(flags: Mapping[str, Any]) -> str | None:
    named = [how for how in ("relaunch", "recover") if flags[how]]
    if len(named) > 1:
        raise InvalidInput("--relaunch and --recover are two ways to run it again: keep one.")
    return named[0] if named else None


def _repeat(session: Session, how: str, flags: Mapping[str, Any]) -> Document:
    from ctl.execution_requests import build_repeat

    request = build_repeat(flags, how, execution_id(session, flags[how]))
    return session.client.repeat_execution(how, request, dry_run=flags["dry_run"])


def _create(session: Session, flags: Mapping[str, Any]) -> Document:
    request = request_of(session, flags)

    def send(request: Request) -> Document:
        return session.client.create_execution(request.body, dry_run=flags["dry_run"])

    return sent(session, request, send)


def request_of(session: Session, flags: Mapping[str, Any]) -> Request:
    """The request that the flags of create and place describe."""
    from ctl.execution_requests import build_request

    scope = resolve_scope(session, {})
    request = build_request(flags, scope.project, scope.domain)
    if "launch_plan" not in request.body["spec"]:
        for key, flag in (("project", "-p"), ("domain", "-d")):
            if session.typed.get(key) not in (None, request.body[key]):
                raise InvalidInput(
                    f"{flag} {session.typed[key]} says where something is registered, which this job is nowhere, and "
                    f"{request.body[key]} where it runs: keep one of the two."
                )
    for note in request.notes:
        session.printer.note(note)
    return request


def sent(session: Session, request: Request, send: Callable[[Request], Document]) -> Document:
    """The answer to a request; where a file's `workflow` is no launch plan, that to the workflow of that name."""
    try:
        return _sent(request, send)
    except NotFound as error:
        if not request.may_mean_workflow or error.name != "launch_plan_not_found":
            raise
        launched = {**request.body, **request.body["spec"]["launch_plan"]}
        name = str(launched["name"])
        if session.client.has_launch_plan(str(launched["project"]), str(launched["domain"]), name):
            raise
        try:
            answer = _sent(request.of_workflow(), send)
        except NotFound as second:
            if second.name == "workflow_not_found":
                second.message = f"There is neither a launch plan {name!r} nor a workflow. {second.message}"
            raise
        session.printer.note(f"There is no launch plan {name}: this is the workflow {name} itself.")
        return answer


def _sent(request: Request, send: Callable[[Request], Document]) -> Document:
    try:
        return send(request)
    except InvalidRequest as error:
        raise request.locate(error) from None


def _report(session: Session, answer: Document, flags: Mapping[str, Any]) -> None:
    printer = session.printer
    id = ExecutionId.from_document(answer["id"])
    execution = Execution.from_document({"id": answer["id"], **(answer.get("execution") or {})})
    tell_warnings(session, answer)
    if not answer.get("created") and not flags["dry_run"]:
        _show(session, answer, execution)
        raise AlreadyCreated(_exists(execution))
    if (flags["logs"] or (printer.is_table and flags["watch"])) and not flags["dry_run"]:
        printer.note(f"Created execution {id}.")
    else:
        _show(session, answer, execution)
    if flags["dry_run"]:
        is_there = flags["name"] is not None and _is_there(session, id)
        printer.note(f"Dry run: nothing was created. {_exists(execution) if is_there else 'This is what it would be.'}")
        return
    if flags["watch"]:
        from ctl.commands.execution_following import check_success, watch_execution

        check_success(watch_execution(session, id))
    elif flags["logs"]:
        from ctl.commands.execution_following import check_success
        from ctl.commands.execution_logs import follow_logs

        check_success(follow_logs(session, id, start=1))
    elif printer.is_table:
        printer.note(f"Created execution {id}. Why there: rainbowctl explain execution {id.flags}")


def _show(session: Session, answer: Document, execution: Execution) -> None:
    printer = session.printer
    if printer.format == "name":
        printer.line(execution.id.resource)
    elif printer.is_table:
        show_executions(session, [execution], with_place=False)
    else:
        printer.document(answer)


def _is_there(session: Session, id: ExecutionId) -> bool:
    try:
        session.client.execution(id)
    except NotFound:
        return False
    return True


def _exists(execution: Execution) -> str:
    return (
        f"Execution {execution.id} exists already: it is {execution.phase}, created {execution.created} by the same "
        "request. Nothing was started."
    )
