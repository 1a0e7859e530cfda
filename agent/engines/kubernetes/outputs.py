"""The output files of a job, which a second container of its pod hands over when the command has ended.

The container waits until Kubernetes ends it, after the command, and prints the files as base64, so that the right to
read logs is enough to read them.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

#: How much of all output files of a pod is handed over: the kubelet keeps no more than 10 MiB of a log in one piece.
MOST_BYTES = 4 << 20
#: How much of what the container prints is read: the image is the user's, and may print what it likes.
MOST_PRINTED_BYTES = 2 * MOST_BYTES
_FILE, _END = "rainbow-output", "rainbow-end"
_HEAD = re.compile(rf"{_FILE} ([0-9]{{1,9}}) ([0-9]{{1,18}})")

OUTPUTS_COMMAND = f"""\
hand_over() {{
  left={MOST_BYTES} number=0
  for path; do
    if [ -f "$path" ] && [ -r "$path" ]; then
      size=$(wc -c < "$path")
      echo "{_FILE} $number $size"
      head -c "$left" "$path" | base64
      left=$((left - size))
      [ "$left" -gt 0 ] || left=0
    fi
    number=$((number + 1))
  done
  echo {_END}
  exit 0
}}
trap 'hand_over "$@"' TERM
while :; do sleep 3600 & wait $!; done
"""


@dataclass(frozen=True)
class OutputFile:
    """What was handed over of a file, and the size of the file."""

    content: bytes
    size: int


def read_outputs(printed: bytes, paths: list[str]) -> dict[str, OutputFile] | None:
    """The files that the container printed, by path; None if it did not come to its end."""
    files: dict[str, OutputFile] = {}
    lines = printed.decode("ascii", "replace").splitlines()
    if _END not in lines:
        return None
    current: tuple[str, int] | None = None
    encoded: list[str] = []

    def keep() -> None:
        if current is not None:
            try:
                files[current[0]] = OutputFile(base64.b64decode("".join(encoded)), current[1])
            except binascii.Error:
                files.pop(current[0], None)

    for line in lines:
        if (head := _HEAD.fullmatch(line.strip())) is not None:
            keep()
            number, size = int(head[1]), int(head[2])
            current, encoded = ((paths[number], size) if number < len(paths) else None), []
        elif line == _END:
            keep()
            break
        else:
            encoded.append(line)
    return files
