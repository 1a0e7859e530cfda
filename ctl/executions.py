"""Executions of `ctl.client`, under the name that programs written for earlier versions import."""

from __future__ import annotations

from ctl.client.executions import Execution, ExecutionId

__all__ = ["Execution", "ExecutionId"]
