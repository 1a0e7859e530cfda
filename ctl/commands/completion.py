"""`completion`: scripts for the shells."""

from __future__ import annotations

import click

from ctl.cli.groups import COMPLETE_VARIABLE, PROGRAM, command
from ctl.cli.options import Argument
from ctl.cli.session import Session

_HELP = """Print the completion script of a shell.

Completes verbs, nouns and flags, and, if the admin answers within a second, projects, domains, declared kinds,
clusters, pools and labels.
"""


@command(
    help=_HELP,
    params=[Argument("shell", type=click.Choice(["bash", "zsh", "fish"]), explanation="Which shell.")],
    examples=[
        "rainbowctl completion bash > ~/.local/share/bash-completion/completions/rainbowctl",
        'rainbowctl completion zsh > "${fpath[1]}/_rainbowctl"',
        "rainbowctl completion fish > ~/.config/fish/completions/rainbowctl.fish",
    ],
)
def completion(session: Session, shell: str) -> None:
    from click.shell_completion import get_completion_class

    completer = get_completion_class(shell)
    assert completer is not None, "the argument's choices are click's shells"
    root = click.get_current_context().find_root().command
    session.printer.line(completer(root, {}, PROGRAM, COMPLETE_VARIABLE).source())
