"""The details of one cluster."""

from __future__ import annotations

from ctl.commands.fleet.cluster_details import _ignored


def test_wide_output_does_not_refer_to_itself_for_ignored_settings() -> None:
    cluster = {"ignored_settings": {"TASK_RESOURCE": [{"field": "limits.gpu"}]}}
    assert _ignored(cluster, is_wide=False) == "1 field of settings; `-o wide` lists them"
    assert _ignored(cluster, is_wide=True) == "1 field of settings; listed below"
    assert _ignored({}, is_wide=True) == ""
