"""Launch plans: ways to launch a workflow, registered under versions, of which one may be active."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ctl.cli.diffs import show_difference
from ctl.cli.groups import command
from ctl.cli.options import MESSAGE, Argument, Option, domain_option, dry_run_option, force_option, project_option
from ctl.cli.output import Columns, Printer, Sentence, Time, id_part
from ctl.cli.prompts import asks, confirm_write
from ctl.cli.provenance import describe_provenance, describe_registration, show_author
from ctl.cli.scopes import project_domain
from ctl.cli.session import Session, reasons
from ctl.client.answers import Document
from ctl.client.calls.registrations import LAUNCH_PLAN, WORKFLOW, Identifier
from ctl.client.errors import InvalidInput, NotFound
from ctl.client.schemas import show
from ctl.commands.registrations.versions import REGISTERED, Reading, read_parameters, version_listing
from ctl.files.execution_samples import Sample

_GET_HELP = """Show the launch plans of a project and domain, each with its newest version; with NAME, all versions of
one; with --version or --latest, one version. INPUTS, in the list with -o wide, are those that an execution has to give
(required), those with a default, and those that are fixed.

--execFile writes a file for `rainbowctl create execution --execFile`, with a value for each input: of --version, else
of the active version, else of the newest.
"""
_UPDATE_HELP = """Activate or deactivate a version of a launch plan.

At most one version of a launch plan is active: activating one deactivates the other. Executions without a version
launch the active one. Shows the difference and asks for confirmation on a terminal. Who did it, when and why (-m) is
shown by `rainbowctl get launchplan NAME` and `rainbowctl history`.
"""


def _active(session: Session, id: Identifier) -> Document | None:
    try:
        return session.client.active_launch_plan(id.project, id.domain, id.name)
    except NotFound:
        return None


def _read(session: Session, id: Identifier, is_chosen: bool) -> Document:
    """The version that was chosen, else the active one, else the newest."""
    active = None if is_chosen else _active(session, id)
    return active or session.client.registration(LAUNCH_PLAN, id)


def _sample(session: Session, launch_plan: Document) -> Sample:
    id, spec = launch_plan["id"], launch_plan["spec"]
    workflow = {"project": id["project"], "domain": id["domain"], **spec["workflow_id"]}
    inputs = session.client.registration(WORKFLOW, Identifier.from_document(workflow))["spec"].get("inputs") or {}
    # flytectl's key `workflow` of such a file names a launch plan.
    defaults, fixed = spec.get("default_inputs") or {}, spec.get("fixed_inputs") or {}
    return Sample(key="workflow", inputs=inputs, defaults=defaults, fixed=fixed)


def _workflow_id(launch_plan: Document) -> Document:
    return launch_plan["spec"].get("workflow_id") or {}


def _workflow(launch_plan: Document) -> str:
    workflow = _workflow_id(launch_plan)
    return f"{workflow.get('name', '')}:{workflow.get('version', '')}"


def _inputs(launch_plan: Document) -> str:
    """Its inputs in one table cell: `data (string, required), epochs=3, mode=thorough (fixed)`."""
    spec = launch_plan["spec"]
    expected = launch_plan.get("expected_inputs")
    if expected is None:  # an older admin tells the values only
        expected = {name: {"default": value} for name, value in (spec.get("default_inputs") or {}).items()}
    inputs = [
        f"{name}={show(input['default'])}" if "default" in input else f"{name} ({input.get('type')}, required)"
        for name, input in expected.items()
    ]
    inputs += [f"{name}={show(value)} (fixed)" for name, value in (spec.get("fixed_inputs") or {}).items()]
    return ", ".join(inputs)


def _state_set_by(launch_plan: Document) -> Document:
    """Who made it active or inactive last, when and why; empty where it is as it was registered."""
    return launch_plan.get("state_set_by") or {}


def summary(printer: Printer, versions: Sequence[Document]) -> str:
    """Which version is active, and who made it so, when and why."""
    active = next((version for version in versions if version.get("state") == "ACTIVE"), None)
    if active is None:
        last = max(map(_state_set_by, versions), key=lambda set_by: str(set_by.get("at") or ""), default={})
        by = f": the last one was deactivated by {describe_provenance(printer, last)}" if last else ""
        return f"No version is active{by}."
    set_by = _state_set_by(active)
    registered = {**active, "at": active.get("created_at")}
    activated = f"activated by {describe_provenance(printer, set_by)}" if set_by else ""
    by = activated or describe_registration(printer, registered)
    return f"Version {active['id']['version']} is active ({by})."


_STATE_SET: Columns = {
    "STATE SET": Time(lambda launch_plan: _state_set_by(launch_plan).get("at")),
    "STATE SET BY": lambda launch_plan: show_author(_state_set_by(launch_plan)),
    "STATE WHY": Sentence(lambda launch_plan: _state_set_by(launch_plan).get("message")),
}
_COLUMNS: Columns = {"VERSION": id_part("version"), "NAME": id_part("name"), "WORKFLOW": _workflow, "STATE": "state"}
_VERSION_COLUMNS: Columns = {**_COLUMNS, "INPUTS": _inputs, **REGISTERED, **_STATE_SET}
_LISTING = version_listing(
    "launch_plan",
    workflow=lambda launch_plan: _workflow_id(launch_plan).get("name"),
    workflow_version=lambda launch_plan: _workflow_id(launch_plan).get("version"),
    state="state",
    updated_at="updated_at",
)
_READING = Reading(
    noun=LAUNCH_PLAN,
    word="launchplan",
    title="launch plan",
    columns={**_COLUMNS, "CREATED AT": Time("created_at")},
    version_columns=_VERSION_COLUMNS,
    single_columns=_VERSION_COLUMNS,
    read=_read,
    sample=_sample,
    listing=_LISTING,
    wide_columns={"INPUTS": _inputs, "CREATED BY": REGISTERED["CREATED BY"], "WHY": REGISTERED["WHY"], **_STATE_SET},
    counted_by="state",
    summary=summary,
)


@command(
    help=_GET_HELP,
    params=[
        *read_parameters("launch plan", _LISTING),
        Option(["-w", "--workflow"], metavar="NAME", help="Launch plans of this workflow."),
        Option(["--search"], metavar="TEXT", help="Launch plans whose names contain this, in any case of letters."),
    ],
    examples=[
        "rainbowctl get launchplan -p flytesnacks -d development",
        "rainbowctl get launchplan -p flytesnacks -d development --workflow train -o wide",
        "rainbowctl get launchplan -p flytesnacks -d development --filter.fieldSelector 'state=ACTIVE,created_at>7d'",
        "rainbowctl get launchplan nightly -p flytesnacks -d development --latest -o yaml",
        "rainbowctl get launchplan nightly -p flytesnacks -d development --execFile run.yaml",
    ],
)
def get_launchplan(session: Session, name: str | None, **flags: Any) -> None:
    filters = {flag: flags.pop(flag) for flag in ("workflow", "search")}
    for flag, value in filters.items():
        if name is not None and value is not None:
            raise InvalidInput(f"--{flag} filters the list, and {name} is one launch plan: leave out one of the two.")
    _READING.run(session, name, flags, **filters)


@command(
    help=_UPDATE_HELP,
    params=[
        Argument("name", explanation="Name of the launch plan."),
        project_option(),
        domain_option(),
        Option(["--version"], metavar="V", required=True, help="Version; latest is the newest."),
        Option(["--activate"], is_flag=True, help="Make it the active version."),
        Option(["--deactivate"], is_flag=True, help="Make it inactive."),
        Option(["--archive"], is_flag=True, hidden=True),
        dry_run_option("Show what would change, and change nothing."),
        force_option("Do not ask."),
        MESSAGE,
    ],
    examples=[
        "rainbowctl update launchplan nightly -p flytesnacks -d development --version v2 --activate -m 'twice as fast'",
        "rainbowctl update launchplan nightly -p flytesnacks -d development --version v2 --deactivate --force",
    ],
)
def update_launchplan(session: Session, name: str, **flags: Any) -> None:
    state = _state_from_flags(flags)
    project, domain = project_domain(session)
    id = Identifier(project=project, domain=domain, name=name, version=flags["version"])
    current = session.client.registration(LAUNCH_PLAN, id)
    id = Identifier.from_document(current["id"])
    title = f"launch plan {name} version {id.version}"
    if current.get("state") == state:
        _report(session, id, current)
        session.printer.note(f"No changes: {title} is {state} already.")
        return
    asks_first = asks(flags)
    before, after = {"state": current.get("state")}, {"state": state}
    if flags["dry_run"]:
        session.printer.note("Dry run: nothing was written.")
    is_shown = show_difference(session, title, before, after, asks_first=asks_first)
    if is_shown and state == "ACTIVE" and (other := _active(session, id)):
        session.printer.note(f"Version {other['id']['version']} is active now, and will become inactive.")
    if asks_first:
        confirm_write()
    if flags["dry_run"]:
        _report(session, id, {**current, "state": state})
        return
    _report(session, id, session.client.set_launch_plan_state(id, state, **reasons(flags)))
    session.printer.note(f"{'Activated' if state == 'ACTIVE' else 'Deactivated'} {title}.")


def _state_from_flags(flags: Mapping[str, Any]) -> str:
    deactivates = flags["deactivate"] or flags["archive"]
    if flags["activate"] and deactivates:
        raise InvalidInput("--activate and --deactivate contradict each other: keep one.")
    if not flags["activate"] and not deactivates:
        raise InvalidInput("Nothing to update: give --activate or --deactivate.")
    return "ACTIVE" if flags["activate"] else "INACTIVE"


def _report(session: Session, id: Identifier, document: Document) -> None:
    session.printer.machine_output(["/".join(["launchplan", *id.document().values()])], document)
