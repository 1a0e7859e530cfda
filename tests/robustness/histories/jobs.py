"""Jobs that record themselves: the command of an execution, whose process writes down its own start and end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.robustness.histories.records import PROCESSES

#: Each line is appended with one write, so that lines are in the order in which they happened, and outlive a kill.
#: Each process holds a lock as long as it runs: the kernel knows whether another process of its execution runs.
#: What fills the disk of an agent is a limit, which is not meant for the record.
_SCRIPT = r"""
ulimit -S -f unlimited
directory=$1 token=$2 milliseconds=$(($3 / RAINBOW_ATTEMPT)) code=$4 manner=$5
record() {
  read -r at _ < /proc/uptime
  printf '{"event": "%s", "token": "%s", "key": "%s", "attempt": %s, "nonce": "%s", "cluster": "%s", "at": %s, '\
'"code": %s, "is_alone": %s}\n' "$1" "$token" "$RAINBOW_KEY" "$RAINBOW_ATTEMPT" "$nonce" "$RAINBOW_CLUSTER" "$at" \
    "$2" "$alone" >> "$directory/@processes@"
}
read -r nonce < /proc/sys/kernel/random/uuid
exec 9> "$directory/lock-$token"
alone=false
flock -n 9 && alone=true
if [ "$manner" = stubborn ]; then trap '' TERM; else trap 'record end 143; exit 143' TERM; fi
record start null
echo "$nonce"
sleep "$((milliseconds / 1000)).$(printf %03d $((milliseconds % 1000)))" 9>&-
record end "$code"
exit "$code"
"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one execution's process does."""

    token: str  #: names the creation
    seconds: float  #: of its first attempt; later ones are shorter
    code: int  #: its exit status
    is_stubborn: bool = False  #: ends on SIGKILL only

    def command(self, directory: Path) -> list[str]:
        """The command that runs it and records it in a directory."""
        manner = "stubborn" if self.is_stubborn else "polite"
        return [
            "sh",
            str(directory / "job.sh"),
            str(directory),
            self.token,
            str(round(1000 * self.seconds)),
            str(self.code),
            manner,
        ]


def token_of(command: list[str]) -> str:
    """The token in a job's command."""
    return command[3]


def prepare_jobs(directory: Path) -> None:
    """Write what jobs run."""
    (directory / "job.sh").write_text(_SCRIPT.replace("@processes@", PROCESSES))
