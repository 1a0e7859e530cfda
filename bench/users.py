"""Users: what it costs that ten thousand of them call in turn, each with a token and ten grants of its own.

The same requests go to an admin without users in the same run. At last tokens are revoked and grants given while others
call, and operators ask who may do what.
"""

from __future__ import annotations

import secrets
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import requests
import sqlalchemy

from admin.core.grants import Grant, Grantee
from admin.core.settings.scopes import Scope
from admin.services.tokens import USER, hash_of
from admin.store.grants import grants, grants_head
from admin.store.grants import values_of as values_of_grant
from admin.store.user_tokens import user_tokens
from admin.store.users import users
from bench import stock
from bench.admins import API, admin_on, port_of
from bench.agents import Client
from bench.ceilings import EMPTY, INSERT, empty_call, insert_call, running_ceilings
from bench.creations import create_call
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.load import Call, Measure, Pace, Rate, measure_in_turns
from bench.processes import largest_worker
from tests.support.admins import RunningAdmin

NAME = "users"
USERS = 10_000
GRANTS_EACH = 10
EFFECTIVE, EFFECTIVE_USERS = "effective attributes, no users", "effective attributes, users in turn"
LIST, LIST_USERS = "list 100 attributes, no users", "list 100 attributes, users in turn"
CREATE, CREATE_USERS = "create a job, no users", "create a job, users in turn"
CHANGING = "effective attributes, users in turn, while rights change each second"
MEMORY, MEMORY_USERS = "memory of a worker, no users", "memory of a worker, users"
REVOKED = "a revoked token is refused by every worker after"
#: Milliseconds after which a revoked token may be accepted nowhere.
PROMISED = 1000
_CEILINGS = {
    EFFECTIVE: EMPTY,
    EFFECTIVE_USERS: EFFECTIVE,
    CHANGING: EFFECTIVE_USERS,
    LIST_USERS: LIST,
    CREATE: INSERT,
    CREATE_USERS: CREATE,
}
_ADMINISTRATOR = "root"
_TIMES = 5
#: In which workers read most tokens, each at its first use.
_WARM_UP_SECONDS = 10
_CHUNK = 2000
#: So many connections, one after the other, come to every worker.
_CONNECTIONS = 20


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database."""
    without, database = backend.create(), backend.create()
    for each in (without, database):
        version = stock.fill(each, stock.THOUSAND)
    tokens = _fill(database, USERS, version)
    root = tokens.pop(_ADMINISTRATOR)
    with (
        admin_on(without) as plain,
        admin_on(database, token=root) as admin,
        running_ceilings(backend.create()) as ceilings,
    ):
        in_turn = list(tokens.values())
        effective = _with_tokens(stock.effective_call(port_of(admin), stock.THOUSAND), in_turn)
        create = create_call(port_of(admin), stock.job_body())
        effective.measure(_WARM_UP_SECONDS)
        rates = measure_in_turns(
            {
                EMPTY: _without_users(empty_call(ceilings), in_turn).measure,
                EFFECTIVE: _without_users(stock.effective_call(port_of(plain), stock.THOUSAND), in_turn).measure,
                EFFECTIVE_USERS: effective.measure,
                CHANGING: _while_changing(port_of(admin), root, effective.measure),
                LIST: _without_users(_list_call(port_of(plain)), in_turn).measure,
                LIST_USERS: _with_tokens(_list_call(port_of(admin)), in_turn).measure,
                INSERT: _without_users(insert_call(ceilings), in_turn).measure,
                CREATE: _without_users(create_call(port_of(plain), stock.job_body()), in_turn).measure,
                CREATE_USERS: _with_tokens(create, in_turn).measure,
            },
            pace,
        )
        for what, rate in rates.items():
            yield rate_figure(NAME, what, backend.name, rate, ceiling=_CEILINGS.get(what, ""))
        for what, measured in ((MEMORY, plain), (MEMORY_USERS, admin)):
            yield Figure(bench=NAME, what=what, database=backend.name, value=largest_worker(measured), unit="MiB")
        client = Client(port_of(admin), root)
        for what, taken in _answers(client, admin):
            middle, slowest = statistics.median(taken), max(taken)
            yield Figure(bench=NAME, what=what, database=backend.name, value=middle, unit="ms", p50=middle, p99=slowest)
        client.close()


def _fill(database: str, count: int, version: int) -> dict[str, str]:
    """Users with a token and ten grants each, and one who may do everything; their tokens, by their names."""
    names = [_ADMINISTRATOR, *(f"user-{number}" for number in range(count))]
    prefixes = {name: f"{number:08x}" for number, name in enumerate(names)}
    tokens = {name: f"{USER.mark}{prefix}-{secrets.token_urlsafe(32)}" for name, prefix in prefixes.items()}
    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = {"created_at": now, "updated_at": now, "version": version}
    engine = sqlalchemy.create_engine(database)
    with engine.begin() as connection:
        rows = [{"name": name, "service_account": False, **made} for name in names]
        connection.execute(sqlalchemy.insert(users), rows)
        rows = [
            {"prefix": prefixes[name], "user_name": name, "name": "bench", "hash": hash_of(token), "created_at": now}
            for name, token in tokens.items()
        ]
        connection.execute(sqlalchemy.insert(user_tokens), rows)
        given = [values_of_grant(grant, version) for name in names for grant in _grants(name)]
        connection.execute(sqlalchemy.insert(grants), given)
        connection.execute(sqlalchemy.update(grants_head).values(number=1))
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sqlalchemy.text("VACUUM ANALYZE users, user_tokens, grants"))
    engine.dispose()
    return tokens


def _grants(user: str) -> Iterator[Grant]:
    """What a user may do: create and read in each domain of a project, and write the settings of some workflows."""
    grantee = Grantee("user", user)
    if user == _ADMINISTRATOR:
        yield Grant(role="admin", grantee=grantee)
        return
    project = stock.project_name(0)
    for domain in stock.DOMAINS:
        yield Grant(role="submitter", grantee=grantee, scope=Scope(domain, project))
    for number in range(GRANTS_EACH - len(stock.DOMAINS)):
        yield Grant(role="editor", grantee=grantee, scope=Scope(stock.DOMAINS[0], project, stock.workflow_name(number)))


def _with_tokens(call: Call, tokens: Iterable[str], header: str = "Authorization") -> Call:
    """The same call, each time with one of some tokens."""
    headers = {**call.headers, header: "Bearer <token>"}
    return replace(call, headers=headers, draws={**call.draws, "token": list(tokens)})


def _without_users(call: Call, tokens: Iterable[str]) -> Call:
    """The same call to an admin without users, with a header as long as that of a token."""
    return _with_tokens(call, tokens, "X-Not-Looked-At")


def _list_call(port: int) -> Call:
    path = f"{API}/matchable_attributes?resource_type=TASK_RESOURCE&limit=100"
    return Call(port=port, path=path)


def _while_changing(port: int, token: str, measure: Measure) -> Measure:
    """A measurement during which a token is revoked, and a grant given, each second."""

    def measure_changing(seconds: int) -> Rate:
        is_over = threading.Event()

        def change() -> None:
            client = Client(port, token)
            while not is_over.wait(1.0):
                user = f"user-{secrets.randbelow(USERS)}"
                issued = client.post(f"/users/{user}/tokens", {"name": f"t{secrets.token_hex(4)}"})
                client.delete(f"/users/{user}/tokens/{issued['prefix']}")
                project = stock.project_name(0)
                workflow = stock.workflow_name(secrets.token_hex(4))
                keys = {"project": project, "domain": stock.DOMAINS[0], "workflow": workflow}
                client.post("/grants", {"grant": {"role": "editor", "user": user, **keys}})
            client.close()

        thread = threading.Thread(target=change)
        thread.start()
        try:
            return measure(seconds)
        finally:
            is_over.set()
            thread.join()

    return measure_changing


def _answers(client: Client, admin: RunningAdmin) -> Iterator[tuple[str, list[float]]]:
    """How long operators wait for something, in milliseconds, each time that it was done."""
    place = f"project={stock.project_name(0)}&domain={stock.DOMAINS[0]}"
    questions = {
        "list 100 grants": "/grants?limit=100",
        "who may do what on a project-domain": f"/access?{place}",
        "explain an access": f"/access/explanation?user=user-1&permission=attributes.write&{place}",
    }
    for what, path in questions.items():
        yield f"{what}, of {USERS * GRANTS_EACH:,}", [_took(partial(client.get, path)) for _ in range(_TIMES)]
    names = iter(range(10**6))

    def give(number: int) -> None:
        keys = {"project": stock.project_name(0), "domain": stock.DOMAINS[0]}
        rows = [{"grant_definition": {"role": "viewer", "user": f"new-{next(names)}", **keys}} for _ in range(number)]
        client.post("/attribute_changes", {"changes": rows})

    yield "give one grant", [_took(lambda: give(1)) for _ in range(_TIMES)]
    yield f"give {_CHUNK:,} grants in one change", [_took(lambda: give(_CHUNK)) for _ in range(_TIMES)]
    yield REVOKED, [_refused_after(client, admin) for _ in range(_TIMES)]


def _took(do: Callable[[], object]) -> float:
    begin = time.monotonic()
    do()
    return (time.monotonic() - begin) * 1000


def _refused_after(client: Client, admin: RunningAdmin) -> float:
    """Milliseconds from the answer to a revocation to the last answer that a worker gave to the token."""
    issued = client.post("/users/user-1/tokens", {"name": f"t{secrets.token_hex(4)}"})

    def use() -> requests.Response:
        headers = {"Authorization": f"Bearer {issued['token']}"}
        return requests.get(f"{admin.url}{API}/whoami", headers=headers, timeout=60)

    for _ in range(_CONNECTIONS):  # so that every worker knows it
        use().raise_for_status()
    client.delete(f"/users/user-1/tokens/{issued['prefix']}")
    begin, last = time.monotonic(), 0.0
    while time.monotonic() - begin < 2 * PROMISED / 1000:
        if use().ok:
            last = time.monotonic() - begin
    return last * 1000
