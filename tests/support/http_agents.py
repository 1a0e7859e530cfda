"""Agents that tests play against a running admin by HTTP calls, so that the test controls each step."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import yaml

Document = dict[str, Any]

SECRET = "the-secret-that-agents-register-with"


def write_configuration(directory: Path, **sections: Any) -> Path:
    """A configuration whose registration secret is `SECRET`; sections are added as they are."""
    secret = directory / "registration.secret"
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)
    clusters = {"registrationSecretFile": str(secret), **sections.pop("clusters", {})}
    path = directory / "rainbow.yaml"
    path.write_text(yaml.safe_dump({"clusters": clusters, **sections}))
    return path


@dataclass(kw_only=True)
class HttpAgent:
    """The agent of one cluster."""

    url: str
    cluster: str
    token: str = ""
    agent: str = field(default_factory=lambda: secrets.token_hex(4))
    sequence: int = 0
    held: list[Document] = field(default_factory=list)  #: leases
    offsets: dict[tuple[str, int, str], int] = field(default_factory=dict)  #: of what was printed

    def post(self, path: str, body: Document) -> requests.Response:
        """The answer to a call of this cluster's, with its token."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        url = f"{self.url}/api/v1/clusters/{self.cluster}/{path}"
        return requests.post(url, json=body, headers=headers, timeout=60)

    def register(self, secret: str = SECRET, **description: Any) -> Document:
        """Register, and keep the token."""
        answer = _good(self.post("register", {"secret": secret, "description": description}))
        self.token = answer["token"]
        return answer

    def sync(self, **fields: Any) -> Document:
        """One sync, which names every lease that is held."""
        self.sequence += 1
        holding = [{"id": lease["id"], "attempt": lease["attempt"]} for lease in self.held]
        body = {"agent": self.agent, "sequence": self.sequence, "holding": holding, "want": 0, **fields}
        return _good(self.post("sync", body))

    def take(self, number: int = 1, seconds: int = 30) -> list[Document]:
        """Take so many leases, and have them confirmed."""
        leases: list[Document] = []
        while len(leases) < number:
            offered = self.sync(want=number - len(leases), wait_seconds=seconds)["leases"]
            assert offered, "no lease was offered"
            self.held += offered
            leases += offered
        confirmed = [lease["id"] for lease in self.sync()["confirmed"]]
        assert all(lease["id"] in confirmed for lease in leases)
        return leases

    def report(self, lease: Document, type: str, **more: Any) -> Document:
        """Report something of a lease; one that has ended is held no longer."""
        event = {"event": secrets.token_hex(8), "id": lease["id"], "attempt": lease["attempt"], "type": type, **more}
        if type != "RUNNING":
            self.held.remove(lease)
        answer = self.sync(events=[event])
        assert answer["accepted"] == [event["event"]], answer["refused"]
        return answer

    def prints(self, lease: Document, text: str | bytes, stream: str = "stdout") -> None:
        """Send on what the execution prints."""
        data = text.encode() if isinstance(text, str) else text
        place = (lease["id"]["name"], lease["attempt"], stream)
        piece = {"id": lease["id"], "attempt": lease["attempt"], "stream": stream}
        encoded = base64.b64encode(data).decode()
        self.sync(logs=[{**piece, "offset": self.offsets.get(place, 0), "data_base64": encoded}])
        self.offsets[place] = self.offsets.get(place, 0) + len(data)


def output(path: str, content: bytes, **more: Any) -> Document:
    """A file that an execution leaves, as an agent reports it."""
    return {"path": path, "size": len(content), "content_base64": base64.b64encode(content).decode(), **more}


def _good(answer: requests.Response) -> Document:
    assert answer.status_code == 200, answer.text
    document: Document = answer.json()
    return document
