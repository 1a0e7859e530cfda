"""The errors of `ctl.client`, under the name that programs written for earlier versions import."""

from __future__ import annotations

from ctl.client.errors import *  # noqa: F403 -- all of them, so that none is forgotten
