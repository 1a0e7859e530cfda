"""Revisions as flags take them: a number, or a time whose revision is looked up."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ctl.cli.session import Session
from ctl.client.errors import InvalidInput


@dataclass(frozen=True)
class RevisionTime:
    """A time that stands for the revision in force then."""

    flag: str
    time: str  #: in RFC 3339

    def number(self, session: Session) -> int:
        """The number of the last revision before it; 0 where that is before the first."""
        number, oldest = session.client.revision_before(self.time)
        if number is None and oldest > 1:
            raise InvalidInput(f"{self.flag}: revisions before {oldest} are no longer kept.")
        session.printer.note(f"{self.flag}: revision {number or 0} was in force {session.printer.when(self.time)}.")
        return number or 0


def revision_number(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """The number of a revision, as a flag takes it; 0 is before the first."""
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal()):
        reason = (
            f"{value!r} is not the number of a revision, as `rainbowctl history` shows them; `rainbowctl history "
            "--until TIME` begins with the one of a time."
        )
        raise click.BadParameter(reason, ctx, param)
    return int(value)


def revision_or_time(ctx: click.Context, param: click.Parameter, value: str | None) -> int | RevisionTime | None:
    """The number of a revision, or a time, whose revision is looked up before the command runs."""
    if value is None or (value.isascii() and value.isdecimal()):
        return revision_number(ctx, param, value)
    from datetime import UTC, datetime

    from ctl.client.times import is_duration, parse_time, parse_timestamp

    flag, now = param.opts[0], datetime.now(UTC)
    try:
        moment, begins_at = parse_time(value, flag, now=now, is_end=True), parse_time(value, flag, now=now)
    except InvalidInput as error:
        if is_duration(value):
            raise
        reason = (
            f"{value!r} is neither the number of a revision, as `rainbowctl history` shows them, nor a time such as "
            "2h, 7d, 2026-03-01 or 2026-03-01T12:00; `rainbowctl history --until TIME` begins with the one of a time."
        )
        raise click.BadParameter(reason, ctx, param) from error
    if (parse_timestamp(begins_at) or now) > now:  # a day is over at its end, and may be today
        raise InvalidInput(f"{flag} {value} lies in the future: give a time until now, or leave it out.")
    return RevisionTime(flag, moment)
