"""Temporary files in memory: most of what tests write is written to be synced, and disks make them wait for that."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_PLACE = Path("/dev/shm")
#: What a run may need; a container often has less.
_BYTES = 2 * 2**30


def use_memory_for_files() -> None:
    """Make temporary files in memory from now on, where there is room and nobody has chosen another place."""
    if "TMPDIR" in os.environ or not _PLACE.is_dir():
        return
    stats = os.statvfs(_PLACE)
    if stats.f_bavail * stats.f_frsize >= _BYTES and not stats.f_flag & os.ST_NOEXEC and os.access(_PLACE, os.W_OK):
        os.environ["TMPDIR"] = tempfile.tempdir = str(_PLACE)
