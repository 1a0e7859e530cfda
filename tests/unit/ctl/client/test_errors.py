from __future__ import annotations

from typing import Any

from ctl.client import errors
from ctl.client.errors import EXIT_CODES, ClientError, InvalidRequest, RainbowError, ServerError


def every_error() -> list[type[RainbowError]]:
    return [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, RainbowError)]


def test_every_error_ends_with_a_documented_exit_status() -> None:
    assert {error.exit_code for error in every_error()} <= set(EXIT_CODES)


def test_every_error_has_a_sentence_of_its_own() -> None:
    assert all(error().message.endswith(".") for error in every_error())


def test_a_detail_the_message_tells_already_is_not_told_again() -> None:
    error = InvalidRequest("Project 'x' is archived.", details=[{"field": "project", "reason": "'x' is archived."}])
    assert error.lines() == ["Project 'x' is archived."]


def test_the_only_detail_is_told_where_the_message_does_not_have_it() -> None:
    error = InvalidRequest("Project 'x' cannot be used.", details=[{"field": "project", "reason": "is archived."}])
    assert error.lines() == ["Project 'x' cannot be used.", "  project: is archived."]


def test_details_are_told_one_to_a_line_with_the_closest_words() -> None:
    details: list[dict[str, Any]] = [
        {"field": "a", "reason": "is bad"},
        {"field": "b", "reason": "is unknown", "closest": ["c", "d"]},
    ]
    assert InvalidRequest("Two things.", details=details).lines() == [
        "Two things.",
        "  a: is bad",
        "  b: is unknown (did you mean c or d?)",
    ]


def test_the_request_id_is_told_where_the_log_is_the_next_step() -> None:
    assert ServerError("It broke.", status=500, request_id="r1").lines() == ["It broke.", "  request id: r1"]
    assert InvalidRequest("No.", status=400, request_id="r1").lines() == ["No."]


def test_a_client_error_carries_what_the_admin_said() -> None:
    error = ClientError("No.", status=409, name="version_conflict", code=10, details=[{"current_version": 7}])
    assert error.document() == {
        "error": {
            "code": 10,
            "name": "version_conflict",
            "message": "No.",
            "details": [{"current_version": 7}],
            "exit_code": 1,
        }
    }
