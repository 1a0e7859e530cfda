"""Parameters of jobspecs, as annotations carry them."""

from __future__ import annotations

import pytest

from admin.core.jobs.parameters import PARAMETERS, parameters_in


def test_numbers_texts_and_booleans_have_names_in_rules() -> None:
    text = '{"walltime": 10, "ratio": 0.5, "queue": "long", "fast": true, "sites": ["a"], "none": null}'
    assert parameters_in({PARAMETERS: text}) == {"walltime": 10, "ratio": 0.5, "queue": "long", "fast": True}


@pytest.mark.parametrize("text", ["", "[1]", "{", "{1: 2}", '{"a": ' + "[" * 16_000, '{"a": ' + "9" * 5000 + "}"])
def test_what_somebody_wrote_otherwise_has_none(text: str) -> None:
    assert parameters_in({PARAMETERS: text}) == {}
