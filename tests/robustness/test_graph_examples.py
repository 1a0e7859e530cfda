"""The example files of Rainbow's first scheduler register and match as documented, a thousand times over HTTP."""

from __future__ import annotations

from typing import Any

import requests

from admin.testing import running_admin
from tests.integration.test_graph_placements import BY_PRICE, JOBSPECS, jobspec
from tests.support.descriptions import DATA, example_description
from tests.support.placing import API, asked, pool
from tests.support.programs import clean_environment, run

TIMES = 1000


def test_examples_match_as_documented_a_thousand_times() -> None:
    with running_admin() as url, requests.Session() as session:
        session.trust_env = False

        def send(method: str, path: str, body: Any) -> requests.Response:
            return session.request(method, f"{url}{API}/{path}", json=body)

        def call(method: str, path: str, body: Any) -> int:
            return send(method, path, body).status_code

        assert call("PUT", "clusters/red", {"cluster": {}}) == 200
        assert call("PUT", "clusters/red/description", example_description()) == 200
        file = str(DATA / "graphs" / "cluster-state.json")
        run(
            *("rainbowctl", "update", "cluster-state", "red", "--file", file),
            env=clean_environment(RAINBOW_ENDPOINT=url),
        )
        assert call("PUT", "pools/red", {"pool": {"members": [{"id": "red"}]}}) == 200
        for name, is_fitting in JOBSPECS.items():
            more: dict[str, Any] = BY_PRICE if name == "next-constraint.yaml" else {}
            body = asked("x", **jobspec(name), **pool("red"), **more)
            answers = [send("POST", "placements", body) for _ in range(TIMES)]
            outcome = (200, None) if is_fitting else (400, "no_cluster_large_enough")
            assert [(answer.status_code, answer.json().get("error")) for answer in answers] == [outcome] * TIMES, name
