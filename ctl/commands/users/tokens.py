"""Tokens of users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows, typed_choice
from ctl.cli.options import (
    LAUNCH_PLAN_WORDS,
    Argument,
    Option,
    definition_completer,
    domain_option,
    force_option,
    option,
    project_option,
    require_text,
    text_option,
)
from ctl.cli.output import Time
from ctl.cli.session import Session
from ctl.cli.windows import named_by_flags
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.nouns import USER
from ctl.client.scopes import KEYS
from ctl.commands.fleet.tokens import check_writable, deliver_token, revoke_token

_GET_HELP = """Show the tokens of a user, newest first, or without USER those of all users that you may see; never
their secrets.

A token is live, expiring (it ends at a time), expired or revoked. When it was used last is known to the minute.
--unused 90d selects those that are neither revoked nor expired, were not used for so long, and are older.
"""
_CREATE_HELP = """Make a token of a user, by which the admin knows who calls.

The token is printed once, or written to a file with mode 0600. Give it to rainbowctl as RAINBOW_TOKEN, or the file as
--tokenFile or in a context. No two good tokens of a user have the same name.

--role, --permission, -p, -d, -w, --launchplan, --cluster and --clusterGroup narrow it: it is then good only for what
that role may do and for these permissions, at that scope and below, and the executions that it creates may use these
clusters alone, as far as its user may do that. Tokens of one user for several clusters may be sent together: they
add up.
"""
_DELETE_HELP = """Revoke a token of a user: requests with it are refused at once, by other replicas within a second.

Asks for confirmation on a terminal.
"""

_PERMISSION_HELP = "Good only for this, such as executions.create. Repeatable."
_CLUSTER_HELP = "Its executions may use this cluster, and no others. Repeatable."
_CLUSTER_GROUP_HELP = "Its executions may use the clusters of this group. Repeatable."
_TOKEN_FIELDS = ("user", "prefix", "name", "state", "created_at", "last_used_at", "expires_at", "revoked_at")
_LISTING = Listing(fields={name: name for name in _TOKEN_FIELDS}, ahead=("expires_at",))
_USER = Argument("user", explanation="Name of the user.", shell_complete=definition_completer(USER))


@command(
    help=_GET_HELP,
    params=[
        Argument(
            "user",
            required=False,
            metavar="[USER]",
            explanation="Name of the user; all of them without it.",
            shell_complete=definition_completer(USER),
        ),
        text_option("unused", metavar="DURATION", help="Without USER: only good ones that were not used for so long."),
        *_LISTING.options(),
    ],
    examples=[
        "rainbowctl get user-token ada",
        "rainbowctl get user-token --unused 90d",
        "rainbowctl get user-tokens -o json",
    ],
)
def get_user_token(session: Session, user: str | None, unused: str | None, **flags: Any) -> None:
    if user is not None and unused is not None:
        raise InvalidInput("--unused chooses among the tokens of all users: leave out the user, or --unused.")
    where = "" if user is None else f"of user {user}"
    tokens = choose_rows(session, _read(session, user, unused), flags, _LISTING, "token", where=where, by="state")
    empty = f"User {user} has no tokens: `rainbowctl create user-token {user} NAME` makes one."
    if user is None or typed_choice(flags):
        empty = "No tokens match."
    session.printer.show(
        (f"user-token/{user or token['user']}/{token['prefix']}" for token in tokens),
        tokens,
        tokens,
        {
            **({"USER": "user"} if user is None else {}),
            "PREFIX": "prefix",
            "NAME": "name",
            "STATE": "state",
            "CREATED": Time("created_at"),
            "LAST USED": Time("last_used_at"),
            "EXPIRES": Time("expires_at", is_ahead=True),
            "REVOKED": Time("revoked_at"),
            **({"NARROWED TO": describe_narrowing} if any(token.get("narrowed") for token in tokens) else {}),
        },
        empty=empty,
    )


def describe_narrowing(token: Document) -> str:
    """`role viewer, project flytesnacks, domain development, cluster east`; empty for a token as good as its user."""
    narrowed = token.get("narrowed") or {}
    parts = {"role": narrowed.get("role"), "permission": narrowed.get("permissions")}
    parts |= {key.replace("_", " "): narrowed.get(key) for key in KEYS} | {"cluster": narrowed.get("clusters")}
    parts |= {"cluster group": narrowed.get("cluster_groups")}
    names = {noun: [part] if isinstance(part, str) else part or [] for noun, part in parts.items()}
    return ", ".join(f"{noun} {name}" for noun in parts for name in names[noun])


def _read(session: Session, user: str | None, unused: str | None) -> Iterator[Document]:
    """The tokens of a user, or of all, asked for once the flags are checked."""
    if user is None:
        with named_by_flags({"unused": "--unused"}):
            yield from session.client.all_user_tokens(unused=unused)
    else:
        yield from session.client.user_tokens(user)


@command(
    help=_CREATE_HELP,
    params=[
        _USER,
        Argument("name", explanation="What the token is for, such as laptop."),
        text_option("role", metavar="ROLE", help="Good only for what this role may do, such as viewer."),
        option("permission", parameter="permissions", multiple=True, metavar="NAME", help=_PERMISSION_HELP),
        project_option("Good only in this project."),
        domain_option("Good only in this domain."),
        Option(["-w", "--workflow"], metavar="WORKFLOW", callback=require_text, help="Good only for this workflow."),
        text_option(
            *LAUNCH_PLAN_WORDS, parameter="launch_plan", metavar="NAME", help="Good only for this launch plan."
        ),
        option("cluster", parameter="clusters", multiple=True, metavar="NAME", help=_CLUSTER_HELP),
        option("clusterGroup", parameter="cluster_groups", multiple=True, metavar="NAME", help=_CLUSTER_GROUP_HELP),
        text_option("expires", metavar="DURATION", help="After how long it ends, such as 90d; without it, never."),
        text_option(
            "newTokenFile",
            parameter="file",
            metavar="FILE",
            help="Write the new token to this file, with mode 0600, not to stdout.",
        ),
    ],
    examples=[
        "rainbowctl create user-token ada laptop --expires 90d --newTokenFile ~/.rainbow-token",
        "rainbowctl create user-token nightly pipeline > token",
        "rainbowctl create user-token nightly report --role viewer -p flytesnacks -d development",
    ],
)
def create_user_token(
    session: Session, user: str, name: str, expires: str | None, file: str | None, **flags: Any
) -> None:
    if file is not None:
        check_writable(Path(file))
    elif session.printer.format == "name":
        raise InvalidInput("-o name would lose the token, which is shown once: leave it out, or write it to a file.")
    answer = session.client.create_user_token(user, name, expires=expires, narrowed=_narrowed(session, flags))
    prefix = answer["prefix"]
    again = f"revoke {prefix}, and create one again"
    deliver_token(session, answer, f"user-token/{user}/{prefix}", file, again=again)
    session.printer.note(f"Token {prefix} of user {user} is valid now. It is not shown again.")


def _narrowed(session: Session, flags: Mapping[str, Any]) -> Document:
    """What the flags narrow a token to; the project and domain of the context do not."""
    typed = {key: flags[key] for key in ("role", "workflow", "launch_plan")}
    typed |= {key: session.typed.get(key) for key in ("project", "domain")}
    typed |= {key: list(flags[key]) for key in ("permissions", "clusters", "cluster_groups")}
    return {key: value for key, value in typed.items() if value}


@command(
    help=_DELETE_HELP,
    params=[
        _USER,
        Argument("prefix", explanation="The first 8 characters after rbu-, as `get user-token` shows them."),
        force_option("Do not ask."),
    ],
    examples=["rainbowctl delete user-token ada 1f2e3d4c", "rainbowctl delete user-token ada 1f2e3d4c --force"],
)
def delete_user_token(session: Session, user: str, prefix: str, force: bool) -> None:
    revoke = session.client.revoke_user_token
    name = f"user-token/{user}/{prefix}"
    revoke_token(session, lambda: revoke(user, prefix), f"token {prefix} of user {user}", name, force=force)
