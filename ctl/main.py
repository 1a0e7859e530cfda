"""rainbowctl: the entry point, the verbs, and how every end becomes an exit status."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence

import click

from ctl.cli.groups import COMPLETE_VARIABLE, PROGRAM, Entry, Group
from ctl.cli.output import print_error
from ctl.cli.session import Session, client_version
from ctl.client.errors import EXIT_BROKEN_PIPE, EXIT_CODES, Interrupted, InvalidInput, RainbowError

_EXIT_TEXT = "\n".join(f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items())

_EPILOG = f"""
\b
Exit status:
{_EXIT_TEXT}

\b
Environment (a flag wins over a variable, a variable over the context):
  RAINBOW_ENDPOINT, RAINBOW_TOKEN, RAINBOW_TOKEN_FILE, RAINBOW_CA_FILE, RAINBOW_PROJECT, RAINBOW_DOMAIN,
  RAINBOW_CONTEXT, RAINBOW_CONFIG, RAINBOW_OUTPUT, RAINBOW_TIMEOUT, NO_COLOR

Global flags work before the verb and after the noun. A flag of several words is read in camelCase and in
kebab-case: --attrFile is --attr-file. A typed -p or -d switches off the context's project and domain, so that -p
alone means the project's own level.
"""


def root() -> Group:
    """The command line: every verb, none of them loaded yet."""
    group = Group(
        PROGRAM,
        help="Rainbow decides where work runs, and can always say why. rainbowctl sets, shows and explains settings.",
        entries={
            "get": Entry(summary="Show what is set", place="verbs"),
            "create": Entry(summary="Create a project, part of the fleet or a user, or run something", place="verbs"),
            "update": Entry(summary="Change a setting, a project, the fleet or a user", place="verbs"),
            "delete": Entry(summary="Delete a setting, part of the fleet or a user, or end executions", place="verbs"),
            "edit": Entry(summary="Change a setting in your editor", place="verbs"),
            "apply": Entry(summary="Apply files or a plan, as one change", place="changes.apply"),
            "diff": Entry(summary="Show what applying files would change", place="changes.diff"),
            "plan": Entry(summary="Show it, and save it as a plan to apply", place="changes.plan"),
            "export": Entry(summary="Write what is set as files to apply", place="changes.export"),
            "history": Entry(summary="Show who changed what, when and why", place="changes.history"),
            "rollback": Entry(summary="Undo a change, or go back to a revision", place="changes.rollback"),
            "explain": Entry(summary="Show what applies, and where it comes from", place="explain"),
            "describe": Entry(summary="Show what a cluster has, and what changed in its description", place="verbs"),
            "compare": Entry(summary="Show what differs between two scopes or revisions", place="compare"),
            "where-used": Entry(summary="Show what says a name or value, and what that reaches", place="where_used"),
            "place": Entry(summary="Show where something would run, and why", place="placement.place"),
            "simulate": Entry(summary="Show which executions a change would move", place="placement.simulate"),
            "redecide": Entry(
                summary="Decide waiting executions again, with current settings", place="placement.redecide"
            ),
            "render": Entry(summary="Show the Kubernetes objects of a project and domain", place="verbs"),
            "wait": Entry(summary="Wait for an execution", place="verbs"),
            "logs": Entry(summary="Show the output of an execution", place="executions.logs"),
            "run-with-token": Entry(
                summary="Run a command while holding tokens of a pool", place="fleet.run_with_token"
            ),
            "register": Entry(summary="Register workflows and launch plans", place="verbs"),
            "enable": Entry(summary="Enable clusters", place="fleet.switches"),
            "disable": Entry(summary="Disable clusters", place="fleet.switches"),
            "cordon": Entry(summary="Give clusters no new work", place="fleet.switches"),
            "uncordon": Entry(summary="Give cordoned clusters new work again", place="fleet.switches"),
            "drain": Entry(summary="Move the work of clusters elsewhere", place="fleet.switches"),
            "undrain": Entry(summary="Give drained clusters new work again", place="fleet.switches"),
            "admit": Entry(summary="Admit pending clusters", place="fleet.switches"),
            "rotate": Entry(summary="Replace a cluster's token", place="verbs"),
            "accept": Entry(summary="Say that the admin's clock is right", place="verbs"),
            "login": Entry(summary="Log in at the admin's OpenID provider", place="login"),
            "logout": Entry(summary="Delete the tokens of a login", place="login"),
            "whoami": Entry(summary="Who the admin takes you for", place="users.whoami"),
            "config": Entry(summary="Contexts: endpoint, token, project and domain", place="config"),
            "completion": Entry(summary="Completion for bash, zsh and fish", place="completion"),
            "version": Entry(summary="Versions of client and admin", place="version", aliases=("versions",)),
        },
        examples=[
            "rainbowctl get execution-cluster-label -p flyteexamples -d development",
            "rainbowctl update execution-cluster-label --attrFile ec.yaml",
            "rainbowctl explain execution-cluster-label -p flyteexamples -d development my.workflow",
            "rainbowctl apply -f settings/ -m 'new limits'",
        ],
        epilog=_EPILOG,
    )
    show_version = click.Option(
        ["--version"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_print_version,
        help="Show the version.",
    )
    group.params.append(show_version)
    return group


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names from elsewhere may hold what this terminal's encoding has no way to write.
            stream.reconfigure(errors="backslashreplace")
    status = run(list(sys.argv[1:] if args is None else args))
    sys.exit(status)


def run(args: list[str], session: Session | None = None) -> int:
    """Run one command and return its exit status; every error is printed here, once."""
    session = session or Session()
    if COMPLETE_VARIABLE in os.environ:
        from click.shell_completion import shell_complete

        return shell_complete(root(), {"obj": session}, PROGRAM, COMPLETE_VARIABLE, os.environ[COMPLETE_VARIABLE])
    try:
        with root().make_context(PROGRAM, list(args), obj=session) as ctx:  # click empties its list
            ctx.command.invoke(ctx)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except OSError as problem:
        # What is still to be written goes nowhere, else the interpreter complains when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(problem, BrokenPipeError):
            return EXIT_BROKEN_PIPE
        error = RainbowError(f"The output cannot be written: {problem.strerror or problem}.")
        return _report(error, args, session.error_status)
    except (click.ClickException, click.Abort, RainbowError, KeyboardInterrupt) as problem:
        return _report(problem, args, session.error_status)
    except Exception as problem:
        trace = problem.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}" if trace else "?"
        error = RainbowError(f"rainbowctl failed at {place}: {type(problem).__name__}: {problem}")
        return _report(error, args, session.error_status)
    finally:
        session.close()


def _report(problem: BaseException, args: list[str], status: int | None = None) -> int:
    if isinstance(problem, click.exceptions.NoArgsIsHelpError):
        print(problem.ctx.get_help() if problem.ctx else "", file=sys.stderr)
        return problem.exit_code
    error = _as_error(problem)
    if isinstance(error, Interrupted):
        print(file=sys.stderr)
    elif status is not None:
        error.exit_code = status
    format = _typed_format(args)
    print_error(error, as_json=format == "json", is_wide=format == "wide")
    return error.exit_code


def _as_error(problem: BaseException) -> RainbowError:
    if isinstance(problem, RainbowError):
        return problem
    if isinstance(problem, click.UsageError):
        command = problem.ctx.command_path if problem.ctx else PROGRAM
        return InvalidInput(problem.format_message(), hint=f"See `{command} --help`.")
    if isinstance(problem, click.ClickException):
        return InvalidInput(problem.format_message())
    return Interrupted()


def _typed_format(args: list[str]) -> str:
    """In which format errors are wanted; read from the words themselves, for parsing them may be what failed."""
    text = "\0".join(args)
    formats: list[str] = re.findall(r"(?:^|\0)(?:-o|--output)[\0=]?([^\0]+)", text)
    return (formats[-1] if formats else os.environ.get("RAINBOW_OUTPUT", "")).lower()


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        print(f"{PROGRAM} {client_version()}")
        ctx.exit()


if __name__ == "__main__":
    main()
