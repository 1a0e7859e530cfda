"""The lists of rainbowctl, found by walking its commands."""

from __future__ import annotations

from scripts.ctl_reference import commands

#: Commands of `get` that are no list, with the reason.
NO_LISTS = {"get clock": "the admin has one clock", "get health": "the admin has one"}
#: Lists under other verbs.
OTHER_LISTS = ("history", "config get-contexts")

COMMANDS = [path.removeprefix("rainbowctl ") for path, _command in commands()]
LISTS = [path for path in COMMANDS if path in OTHER_LISTS or (path.startswith("get ") and path not in NO_LISTS)]
