"""Operations are described by the functions that answer them."""

from __future__ import annotations

from admin.api.operations import Operations
from admin.app import all_operations
from admin.messages.creations import CreatedAnswer, ManyCreatedAnswer
from admin.messages.service import StatusAnswer


def test_a_view_gives_the_summary_and_the_answer() -> None:
    operations = Operations("nothing")

    @operations.add("GET", "/nothing")
    def get_nothing() -> StatusAnswer:
        """Read nothing."""
        return StatusAnswer(status="ok")

    [operation] = operations.all
    assert (operation.path, operation.summary, operation.answers) == (
        "/api/v1/nothing",
        "Read nothing",
        (StatusAnswer,),
    )


def test_every_operation_has_a_summary_and_all_but_one_an_answer() -> None:
    assert [operation.path for operation in all_operations() if not operation.summary] == []
    assert [operation.path for operation in all_operations() if not operation.answers] == ["/metrics"]
    [creation] = [item for item in all_operations() if (item.method, item.path) == ("POST", "/api/v1/executions")]
    assert creation.answers == (CreatedAnswer, ManyCreatedAnswer)
