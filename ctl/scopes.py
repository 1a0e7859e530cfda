"""Scopes of `ctl.client`, under the name that programs written for earlier versions import."""

from __future__ import annotations

from ctl.client.scopes import Scope

__all__ = ["Scope"]
