from __future__ import annotations

from typing import Any

import pytest

from ctl.client.answers import Attribute, ChangeSet
from ctl.client.errors import Conflict, InvalidRequest
from ctl.client.kinds import built_in
from ctl.client.scopes import Scope
from ctl.client.yaml_files import Source
from ctl.files.document_sets import KindWords, document_reader
from ctl.files.proposals import Proposal, moved_reason

TEXT = """\
kind: execution-cluster-label
domain: d
version: 3
value: x
---
kind: project
id: p
"""
KINDS = KindWords(built_in)


def noun(name: str) -> str:
    return name.lower().replace("_", "-")


def proposal() -> Proposal:
    documents = document_reader(KINDS).parse(Source(name="f.yaml", text=TEXT))
    pruned = Attribute(scope=Scope(project="p", domain="d"), payload={}, kind="TASK_RESOURCE", version=9)
    return Proposal.from_documents(documents, [pruned])


def trial(*rows: dict[str, Any]) -> ChangeSet:
    return ChangeSet.from_document({"rows": list(rows), "revision": 9, "changed": True})


FOUND = trial(
    {"index": 0, "action": "update", "resource_type": "EXECUTION_CLUSTER_LABEL", "domain": "d", "version": 4},
    {"index": 1, "action": "create", "resource_type": "PROJECT", "project": "p"},
    {"index": 2, "action": "delete", "resource_type": "TASK_RESOURCE", "project": "p", "domain": "d", "version": 9},
)


def test_the_write_expects_every_row_as_the_plan_found_it() -> None:
    assert proposal().expecting(FOUND) == [
        {
            "resource_type": "EXECUTION_CLUSTER_LABEL",
            "domain": "d",
            "payload": {"value": "x"},
            "expected_version": 4,
        },
        {"project_definition": {"id": "p"}, "expected_absent": True},
        {"resource_type": "TASK_RESOURCE", "project": "p", "domain": "d", "delete": True, "expected_version": 9},
    ]


def test_a_document_made_from_another_version_is_a_conflict() -> None:
    with pytest.raises(Conflict) as caught:
        proposal().check_versions(FOUND, noun)
    assert caught.value.lines() == [
        "1 row changed in the meantime: nothing was written. Remove the versions from the documents, or use --force.",
        "  f.yaml:1:1: execution-cluster-label at domain d: expected at version 3, now at version 4",
    ]


def test_a_document_that_changes_nothing_may_have_any_version() -> None:
    rows = [{**row, "action": "unchanged"} for row in FOUND.document["rows"]]
    proposal().check_versions(trial(*rows), noun)


def test_a_refusal_of_the_admin_is_found_in_the_documents() -> None:
    details: list[dict[str, Any]] = [
        {"index": 0, "field": "value", "reason": "is odd"},
        {"index": 1, "field": "project_definition.id", "reason": "is taken"},
        {"index": 2, "field": "", "reason": "is needed"},
    ]
    error = proposal().locate(InvalidRequest("many words", details=details))
    assert error.lines() == [
        "The admin refused the change: 3 problems. Nothing was written.",
        "  f.yaml:4:8: value: is odd",
        "  f.yaml:7:5: id: is taken",
        "  --prune: is needed",
    ]


def test_a_part_of_the_fleet_is_known_by_its_name() -> None:
    text = "kind: pool\nname: gpu\nversion: 2\nmembers:\n- {id: a}\n- {id: b, weight: 3}\n"
    documents = Proposal.from_documents(document_reader(KINDS).parse(Source(name="f.yaml", text=text)))
    changes = trial({"index": 0, "action": "update", "resource_type": "POOL", "name": "gpu", "version": 4})
    members = [{"id": "a", "weight": 1}, {"id": "b", "weight": 3}]
    assert documents.expecting(changes) == [
        {"pool_definition": {"name": "gpu", "members": members}, "expected_version": 4}
    ]
    with pytest.raises(Conflict) as caught:
        documents.check_versions(changes, noun)
    assert caught.value.lines()[1] == "  f.yaml:1:1: pool gpu: expected at version 2, now at version 4"
    detail = {"index": 0, "field": "pool_definition.members[1].weight", "reason": "is odd"}
    error = documents.locate(InvalidRequest("many words", details=[detail]))
    assert error.lines()[1] == "  f.yaml:6:19: members[1].weight: is odd"


def test_a_refusal_without_places_stays_as_it_is() -> None:
    error = proposal().locate(InvalidRequest("many words", details=[{"field": "message", "reason": "is too long"}]))
    assert error.message == "many words"


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"expected_version": 1, "current_version": 2}, "expected at version 1, now at version 2"),
        ({"expected_version": 1}, "expected at version 1, now deleted"),
        (
            {"expected_version": 1, "changed_by_revision": 5},
            "expected at version 1, now deleted (revision 5)",
        ),
        ({"current_version": 2}, "expected not to be set, now at version 2"),
        ({"changed_by_revision": 5}, "changed again by revision 5"),
    ],
)
def test_a_moved_row_in_words(facts: dict[str, Any], message: str) -> None:
    assert moved_reason({"resource_type": "PROJECT", "project": "p", **facts}, noun) == f"project p: {message}"
