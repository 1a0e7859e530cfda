"""Runs executions as Jobs of a Kubernetes cluster."""

from __future__ import annotations

from agent.engines.kubernetes.engine import KubernetesEngine

__all__ = ["KubernetesEngine"]
