"""Users: as whom jobs run, and what they can reach of the agent."""

from __future__ import annotations

import ctypes
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_PR_SET_DUMPABLE = 4
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, kw_only=True)
class User:
    """A user of this machine."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


def find_user(name: str) -> User | None:
    """The user of that name; None if there is none."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return User(
        name=name,
        uid=entry.pw_uid,
        gid=entry.pw_gid,
        groups=tuple(os.getgrouplist(name, entry.pw_gid)),
        home=entry.pw_dir,
        shell=entry.pw_shell,
    )


def own_name() -> str:
    """The name of the user as whom this process runs, or its number if it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


@contextmanager
def file_access_of(user: User | None) -> Iterator[None]:
    """Let this thread of a process of root's open no file that a user could not open; None changes nothing."""
    if user is None:
        yield
        return
    groups = os.getgroups()
    # Other threads have the groups too for the time, but as root they need none.
    os.setgroups(user.groups)
    _libc.setfsgid(user.gid)
    _libc.setfsuid(user.uid)
    try:
        if _libc.setfsuid(-1) != user.uid:
            raise PermissionError(f"files cannot be opened as {user.name}")
        yield
    finally:
        _libc.setfsuid(os.geteuid())
        _libc.setfsgid(os.getegid())
        os.setgroups(groups)


def hide_process() -> None:
    """Keep other processes of the same user from reading this one's memory and environment, and from tracing it."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
