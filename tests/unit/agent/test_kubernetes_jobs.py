"""What a Job that cannot be created says."""

from __future__ import annotations

from typing import Any

import pytest

from agent.engines.base import EngineError, EngineUnavailable, SubmitRefused
from agent.engines.kubernetes.api import Forbidden, Refusal
from agent.engines.kubernetes.jobs import Jobs
from agent.engines.kubernetes.options import read_options


class Refusing:
    """An API server that refuses every Job, and has one of that name."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def create(self, path: str, document: Any, **query: Any) -> Any:
        raise self._error

    def get(self, path: str) -> Any:
        return {"metadata": {"name": "rb-1", "namespace": "p-d", "labels": {"rainbow/key": "rb-1"}}}


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (
            Refusal(404, "NotFound", 'namespaces "p-d" not found'),
            SubmitRefused,
            "create it.*update cluster alpha --clusterRes.*must then be the admin's namespace_mapping.template",
        ),
        (Refusal(422, "Invalid", "spec.template: invalid"), SubmitRefused, "Kubernetes refuses the Job: spec.template"),
        (Refusal(409, "Conflict", "the quota has changed"), EngineUnavailable, "Kubernetes asks to try again"),
        (Refusal(409, "AlreadyExists", "exists"), SubmitRefused, "that no agent of this cluster created"),
        (
            Forbidden("User cannot create jobs"),
            SubmitRefused,
            "no Job can be created in the namespace p-d: User cannot",
        ),
    ],
)
def test_what_keeps_a_job_from_being_created_is_said(error: Exception, raised: type[EngineError], message: str) -> None:
    api: Any = Refusing(error)
    jobs = Jobs(api, read_options({"cluster": "alpha"}))
    with pytest.raises(raised, match=message):
        jobs.create({"metadata": {"namespace": "p-d", "name": "rb-1"}})
