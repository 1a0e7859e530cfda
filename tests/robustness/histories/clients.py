"""Clients: threads that create, abort, change and read at random, and record every call and answer."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from ctl.files.retries import ON_LOST
from tests.robustness.histories.jobs import Job, token_of
from tests.robustness.histories.records import Operation, Recorder, now

PROJECT, DOMAIN = "flytesnacks", "development"
_SCOPES = ("w1", "w2", "w3")
_EXECUTIONS = f"executions/{PROJECT}/{DOMAIN}"
Answer = Mapping[str, Any]


@dataclass(kw_only=True)
class Client:
    """One caller of the admin's API; each method is one operation of the history."""

    name: str
    url: Callable[[], str]  #: the admin's, which may change
    recorder: Recorder
    timeout: tuple[float, float] = (2.0, 10.0)  #: to connect, and for the answer
    session: requests.Session = field(default_factory=requests.Session)

    def create(self, name: str, job: Job, directory: Path, on_lost: str, attempts: int, **spec: Any) -> Operation:
        """Create an execution."""
        request = {"name": name, "token": job.token, "on_lost": on_lost, "attempts": attempts, "code": job.code}
        resources = {"requests": {"cpu": "100m", "memory": "10Mi"}, "duration": "1h"}
        retry = {"attempts": attempts, "backoff": "1s", "on_lost": on_lost}
        body = {
            "project": PROJECT,
            "domain": DOMAIN,
            "name": name,
            "spec": {"job": {"command": job.command(directory), "resources": resources}, "retry": retry, **spec},
        }
        return self._call("create", request, "POST", "executions", _created, json=body)

    def get(self, name: str, after_event: int = 0) -> Operation:
        """Read an execution, once something has happened after an event."""
        query = {"after_event": after_event, "wait_seconds": 1} if after_event else {}
        return self._call("get", {"name": name}, "GET", f"{_EXECUTIONS}/{name}", _execution, params=query)

    def abort(self, name: str) -> Operation:
        """End an execution."""
        return self._call(
            "abort", {"name": name}, "DELETE", f"{_EXECUTIONS}/{name}", lambda body: {"phase": body["phase"]}
        )

    def give_up(self, name: str) -> Operation:
        """Wait no longer for an execution at a silent cluster."""
        return self._call(
            *("give_up", {"name": name}, "DELETE", f"{_EXECUTIONS}/{name}"),
            lambda body: {"phase": body["phase"], "changed": body["changed"]},
            json={"give_up": True, "cause": "no patience"},
        )

    def silent(self) -> Operation:
        """List the executions whose clusters are silent."""
        return self._call(
            *("silent", {}, "GET", _EXECUTIONS),
            lambda body: {"names": [execution["id"]["name"] for execution in body["executions"]]},
            params={"filters": "eq(reason,CLUSTER_SILENT)", "limit": 1000},
        )

    def set(self, scope: str, value: int) -> Operation:
        """Change a setting of a workflow."""
        body = {"attributes": {"matching_attributes": {"workflow_execution_config": {"max_parallelism": value}}}}
        path = f"workflow_attributes/{PROJECT}/{DOMAIN}/{scope}"
        return self._call(
            *("set", {"scope": scope, "value": value}, "PUT", path),
            lambda body: {"revision": body["revision"], "changed": body["changed"]},
            json=body,
        )

    def effective(self, scope: str) -> Operation:
        """Read the effective value of a setting."""
        query = {"project": PROJECT, "domain": DOMAIN, "workflow": scope, "resource_type": "6"}
        return self._call("effective", {"scope": scope}, "GET", "effective_attributes", _effective, params=query)

    def watch(self, since: int, wait: int = 1) -> Operation:
        """Wait for revisions after one that is known."""
        query = {"since": since, "wait": wait, "limit": 1000}
        return self._call("watch", {"since": since}, "GET", "revisions", _numbers, params=query)

    def events(self, name: str, token: str) -> Operation:
        """Read all events of an execution."""
        return self._call(
            *("events", {"name": name}, "GET", f"{_EXECUTIONS}/{name}/events"),
            lambda body: {
                "token": token,
                "events": [{key: event[key] for key in ("number", "type", "phase")} for event in body["events"]],
            },
            params={"limit": 1000},
        )

    def log(self, name: str, token: str) -> Operation:
        """Read what an execution's last attempt printed."""
        return self._call(
            *("log", {"name": name}, "GET", f"{_EXECUTIONS}/{name}/logs"),
            lambda body: {"token": token, "attempt": body["attempt"], "text": body["data"]},
        )

    def cluster_events(self, cluster: str) -> Operation:
        """Read what happened to a cluster."""
        return self._call(
            *("cluster_events", {"cluster": cluster}, "GET", f"clusters/{cluster}/events"),
            lambda body: {"types": [event["type"] for event in body["events"]]},
            params={"limit": 1000},
        )

    def revision(self, number: int) -> Operation:
        """Read one revision."""
        return self._call("revision", {"number": number}, "GET", f"revisions/{number}", _revision)

    def _call(
        self,
        name: str,
        request: Answer,
        method: str,
        path: str,
        condense: Callable[[Any], Answer],
        **arguments: Any,
    ) -> Operation:
        """Send a request; the history keeps only what the model looks at."""

        def send() -> tuple[int, Answer] | None:
            try:
                answer = self.session.request(method, f"{self.url()}/api/v1/{path}", timeout=self.timeout, **arguments)
                body = answer.json()
            except (requests.RequestException, ValueError):
                self.session.close()
                return None
            if answer.status_code != 200:
                return answer.status_code, {"error": body.get("error"), "message": body.get("message")}
            return 200, {**condense(body), **({"stale": True} if "Rainbow-Stale" in answer.headers else {})}

        return self.recorder.call(self.name, name, request, send)


def _created(body: Any) -> Answer:
    return {"created": body["created"], **_execution(body["execution"])}


def _execution(body: Any) -> Answer:
    return {
        "token": token_of(body["job"]["command"]),
        "phase": body["closure"]["phase"],
        "reason": body["closure"]["reason"]["code"],
        "attempt": body["attempt"],
        "cluster": body.get("cluster"),
        "exit_code": body.get("exit_code"),
        "events": body["events"],
    }


def _effective(body: Any) -> Answer:
    value = body["values"][0]
    is_own = value["origins"]["max_parallelism"]["level"] == "workflow"
    return {"value": value["value"]["max_parallelism"] if is_own else None, "revision": body["revision"]}


def _numbers(body: Any) -> Answer:
    return {"numbers": [revision["number"] for revision in body["revisions"]], "revision": body["head"]}


def _revision(body: Any) -> Answer:
    change = body["changes"][0]
    is_ours = change["resource_type"] == "WORKFLOW_EXECUTION_CONFIG"
    scope, value = (change["workflow"], change["after"]["max_parallelism"]) if is_ours else (None, None)
    return {"number": body["number"], "scope": scope, "value": value}


@dataclass(kw_only=True)
class Load:
    """What many clients do at random, until told to stop."""

    seed: str
    url: Callable[[], str]
    recorder: Recorder
    directory: Path  #: of the jobs
    clusters: tuple[str, ...]
    pool: str  #: of those clusters
    longest_seconds: float = 3.0  #: of a job
    pause_seconds: float = 0.15  #: between two operations of a client, on average
    created: dict[str, str] = field(default_factory=dict)  #: tokens that may have been created, by name
    generation: Callable[[], int] = lambda: 0  #: raised with each restore, after which names are used again
    kept_until: Callable[[], float] = lambda: 0.0  #: when the backup that was restored last was made
    long_seconds: float = 15.0  #: of a job that outlives a lease
    long_until: float = 0.0  #: until when such jobs are created
    _begun: dict[str, float] = field(default_factory=dict)  #: when each name was first used
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self, clients: int = 3) -> None:
        for number in range(clients):
            self._start(self._act, number)
        self._start(self._watch, clients)
        self._start(self._operate, clients + 1)

    def stop(self) -> None:
        """Stop the clients, and wait for their last answers."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _start(self, act: Callable[[Client, random.Random, int], None], number: int) -> None:
        client = Client(name=f"client-{number}", url=self.url, recorder=self.recorder)
        rng = random.Random(f"{self.seed} client {number}")
        thread = threading.Thread(target=act, args=(client, rng, number), name=client.name)
        self._threads.append(thread)
        thread.start()

    def _act(self, client: Client, rng: random.Random, number: int) -> None:
        values, counters = itertools.count(1), {0: itertools.count(1)}
        while not self._stop.wait(rng.expovariate(1 / self.pause_seconds)):
            generation = self.generation()
            names = [name for name in list(self.created) if name.startswith("x")]
            action = rng.choices(("create", "get", "abort", "set", "effective"), (5, 4, 0.5, 2, 3))[0]
            if action == "create" or not names:
                counter = counters.setdefault(generation, itertools.count(self._count_kept(number) + 1))
                self._create(client, rng, f"x{number}-{next(counter)}", generation)
            elif action == "get":
                client.get(rng.choice(names), rng.choice((0, 0, 1, 2, 3)))
            elif action == "abort":
                client.abort(rng.choice(names))
            elif action == "set":
                client.set(rng.choice(_SCOPES), number * 10**6 + next(values))
            else:
                client.effective(rng.choice(_SCOPES))

    def _count_kept(self, number: int) -> int:
        """How many names of a client a restored backup has; those after them are used again."""
        return sum(name.startswith(f"x{number}-") and at < self.kept_until() for name, at in self._begun.copy().items())

    def _create(self, client: Client, rng: random.Random, name: str, generation: int) -> None:
        on_lost = rng.choice(ON_LOST)
        is_long = rng.random() < 0.5 and now() < self.long_until
        job = Job(
            token=f"{name}.{generation}",
            seconds=self.long_seconds if is_long else rng.uniform(0.05, self.longest_seconds),
            code=0 if is_long else rng.choice((0, 0, 0, 3, 7)),
            is_stubborn=rng.random() < 0.1,
        )
        pool = {"cluster_assignment": {"cluster_pool_name": self.pool}}
        where = {"cluster": rng.choice(self.clusters)} if rng.random() < 0.3 else pool
        attempts = rng.choice((2, 3)) if on_lost == "retry" else rng.choice((1, 1, 2))
        for _ in range(3):  # a creation without an answer is repeated, which changes nothing
            self.created[name] = job.token
            self._begun.setdefault(name, now())
            operation = client.create(name, job, self.directory, on_lost, attempts, **where)
            if operation.status is not None or self.generation() != generation or self._stop.wait(0.5):
                return

    def _watch(self, client: Client, rng: random.Random, number: int) -> None:
        since, generation = 0, 0
        while not self._stop.is_set():
            if self.generation() != generation:
                since, generation = 0, self.generation()
            operation = client.watch(since)
            if operation.is_done:
                since = max([since, *operation.answer["numbers"]])
            else:
                self._stop.wait(0.5)

    def _operate(self, client: Client, rng: random.Random, number: int) -> None:
        """Give up some of what waits for a silent cluster."""
        while not self._stop.wait(rng.uniform(0.5, 2)):
            silent = client.silent()
            names = [name for name in silent.answer.get("names", ()) if name in self.created]
            if names:
                client.give_up(rng.choice(names))
