from __future__ import annotations

import pytest

from ctl.client.errors import InvalidInput
from ctl.commands.executions.outputs import path_below


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/../x", "/", "", ".", "a\nb"])
def test_an_output_that_would_leave_its_directory_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be written below a directory"):
        path_below(path)


@pytest.mark.parametrize(("path", "inner"), [("a/b", "a/b"), ("/etc/x", "etc/x"), ("./a", "a"), ("a..b", "a..b")])
def test_any_other_output_stays_in_it(path: str, inner: str) -> None:
    assert str(path_below(path)) == inner
