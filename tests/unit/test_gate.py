"""The gate: who is calling, and what their token is for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from admin.core.identities import Identity, Proof
from admin.core.problems import Invalid
from admin.errors import Forbidden, RainbowError, TooManyAttempts, Unauthenticated
from admin.gate import Caller, Gate, Operation, Owner, accept_request_id
from admin.services.wrong_attempts import WrongTokens
from admin.token_file import TokenFile

TOKEN, OTHER, AGENT = "0123456789abcdef", "fedcba9876543210", "rbc-0a0a0a0a-of-beta"
USER = "rbu-0b0b0b0b-of-ada"


ROUTES = [
    Operation(method="GET", path="/healthz", is_open=True),
    Operation(method="POST", path="/clusters/<name>/register", is_open=True),
    Operation(method="POST", path="/clusters/<name>/sync", for_agents=True),
    Operation(method="GET", path="/clusters/<name>"),
    Operation(method="GET", path="/executions/<project>/<domain>/<name>", for_agents=True),
    Operation(method="DELETE", path="/executions/<project>/<domain>/<name>"),
    Operation(method="GET", path="/projects/<rest:id>"),
]


def cluster_of(token: str) -> str:
    if token != AGENT:
        raise Unauthenticated("This cluster token does not count.")
    return "beta"


def user_of(token: str) -> Identity:
    if token != USER:
        raise Unauthenticated("This token does not count.")
    return Identity(user="ada", proof=Proof.TOKEN, token="0b0b0b0b")


ANA = Identity(user="ana", groups=frozenset({"ml"}), proof=Proof.OPENID)


def identify(token: str) -> Identity:
    if token != "head.of-ana.signature":
        raise Unauthenticated("The token is no JSON Web Token.")
    return ANA


def gate(token: str | None = TOKEN, has_users: bool = False, *, has_provider: bool = False) -> Gate:
    tokens = None if token is None else lambda: (OTHER.encode(), token.encode())
    return Gate(
        tokens=tokens,
        cluster_of=cluster_of,
        operations=ROUTES,
        open_folders=["/docs"],
        user_of=user_of,
        has_users=lambda: has_users,
        identify=identify if has_provider else None,
    )


def admit(
    method: str, path: str, authorization: str | None, token: str | None = TOKEN, has_users: bool = False
) -> Caller | RainbowError:
    try:
        return gate(token, has_users).admit(method, path, authorization=authorization, request_id="r")
    except RainbowError as error:
        return error


ANYBODY = Caller(request_id="r")
OPERATOR = Caller(request_id="r", identity=Identity(user="anonymous", proof=Proof.SHARED_TOKEN))
BETA = Caller(request_id="r", identity=Identity(user="cluster/beta", proof=Proof.AGENT, cluster="beta"))
ADA = Caller(request_id="r", identity=Identity(user="ada", proof=Proof.TOKEN, token="0b0b0b0b"))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/healthz"),
        ("HEAD", "/healthz"),
        ("OPTIONS", "/healthz"),
        ("GET", "/healthz/"),
        ("POST", "/clusters/beta/register"),
        ("GET", "/docs"),
        ("GET", "/docs/index.html"),
    ],
)
@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Bearer rbc-wrong", f"Bearer {TOKEN}"])
def test_an_open_path_takes_everybody(method: str, path: str, authorization: str | None) -> None:
    assert admit(method, path, authorization) == ANYBODY


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/healthz"),
        ("GET", "/clusters/beta/register"),
        ("POST", "/clusters/beta/gamma/register"),
        ("GET", "/docsx"),
        ("POST", "/docs"),
        ("GET", "/healthz\n"),
        ("GET", "/projects/x"),
        ("GET", "/nowhere"),
    ],
)
def test_every_other_path_needs_a_token(method: str, path: str) -> None:
    refusal = admit(method, path, None)
    assert isinstance(refusal, Unauthenticated)
    assert "RAINBOW_TOKEN" in refusal.message


@pytest.mark.parametrize("authorization", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER   {TOKEN} "])
def test_the_operators_token_is_for_everything(authorization: str) -> None:
    assert admit("DELETE", "/executions/p/d/n", authorization) == OPERATOR


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"])
def test_a_wrong_token_is_refused(authorization: str) -> None:
    assert isinstance(admit("GET", "/projects/x", authorization), Unauthenticated)


@pytest.mark.parametrize("token", [TOKEN, None])
@pytest.mark.parametrize(
    ("method", "path", "may"),
    [
        ("POST", "/clusters/beta/sync", True),
        ("POST", "/clusters/gamma/sync", False),
        ("GET", "/clusters/beta", False),
        ("GET", "/executions/p/d/n", True),
        ("HEAD", "/executions/p/d/n", False),
        ("DELETE", "/executions/p/d/n", False),
        ("GET", "/projects/x/y", False),
    ],
)
def test_an_agents_token_is_for_its_own_cluster_and_for_executions(
    token: str | None, method: str, path: str, may: bool
) -> None:
    caller = admit(method, path, f"Bearer {AGENT}", token)
    if may:
        assert caller == BETA
    else:
        assert isinstance(caller, Forbidden)
        assert "'beta'" in caller.message


def test_an_agents_token_that_does_not_count_is_refused() -> None:
    assert isinstance(admit("POST", "/clusters/beta/sync", "Bearer rbc-other"), Unauthenticated)


def test_without_an_operators_token_everybody_may_come_and_agents_are_known() -> None:
    assert admit("DELETE", "/executions/p/d/n", None, token=None) == ANYBODY
    assert admit("DELETE", "/executions/p/d/n", "Bearer whatever", token=None) == ANYBODY
    assert admit("GET", "/nowhere", f"Bearer {AGENT}", token=None) == ANYBODY
    assert admit("POST", "/clusters/beta/sync", f"Bearer {AGENT}", token=None) == BETA


def test_who_comes_through_a_proxy_needs_a_token_where_nobody_else_does() -> None:
    def forwarded(method: str, path: str, authorization: str | None, token: str | None, has_users: bool) -> Caller:
        return gate(token, has_users).admit(
            method, path, authorization=authorization, request_id="r", is_forwarded=True
        )

    for authorization in (None, "Bearer whatever", f"Bearer {USER}"):
        with pytest.raises(Unauthenticated, match=r"came through a proxy.*create-token USER --create --file FILE"):
            forwarded("GET", "/projects/x", authorization, None, False)
    assert forwarded("GET", "/healthz", None, None, False) == ANYBODY
    assert forwarded("POST", "/clusters/beta/sync", f"Bearer {AGENT}", None, False) == BETA
    assert forwarded("GET", "/projects/x", f"Bearer {TOKEN}", TOKEN, False) == OPERATOR
    assert forwarded("GET", "/projects/x", f"Bearer {USER}", None, True) == ADA


@pytest.mark.parametrize("token", [TOKEN, None])
def test_as_soon_as_there_are_users_every_request_needs_a_token(token: str | None) -> None:
    for authorization in (None, "Basic x"):
        refusal = admit("GET", "/projects/x", authorization, token, has_users=True)
        assert isinstance(refusal, Unauthenticated)
        assert "rainbow-admin create-token USER" in refusal.message
    assert isinstance(admit("GET", "/projects/x", "Bearer whatever", token, has_users=True), Unauthenticated)
    assert isinstance(admit("GET", "/projects/x", "Bearer rbu-0b0b0b0b-wrong", token, has_users=True), Unauthenticated)
    assert isinstance(admit("GET", "/nowhere", None, token, has_users=True), Unauthenticated)
    assert admit("GET", "/healthz", None, token, has_users=True) == ANYBODY
    assert admit("GET", "/projects/x", f"Bearer {USER}", token, has_users=True) == ADA
    assert admit("POST", "/clusters/beta/sync", f"Bearer {AGENT}", token, has_users=True) == BETA


def test_with_users_the_shared_token_is_a_service_account() -> None:
    operator = admit("GET", "/projects/x", f"Bearer {TOKEN}", has_users=True)
    assert isinstance(operator, Caller)
    assert operator.identity == Identity(user="shared-token", proof=Proof.SHARED_TOKEN)


def test_a_users_token_is_none_where_there_are_no_users() -> None:
    assert isinstance(admit("GET", "/projects/x", f"Bearer {USER}"), Unauthenticated)
    assert admit("GET", "/projects/x", f"Bearer {USER}", token=None) == ANYBODY


class Lookups:
    """A gate whose time stands still, and what it looks up."""

    def __init__(self, shared: str | None = TOKEN, most: int = 3) -> None:
        self.count = 0
        self.now = 0.0
        self.gate = Gate(
            tokens=None if shared is None else lambda: (shared.encode(),),
            cluster_of=self._noted(cluster_of),
            operations=ROUTES,
            user_of=self._noted(user_of),
            has_users=lambda: True,
            wrong_tokens=WrongTokens(most, lambda: self.now),
            is_live=lambda token: token in (USER, AGENT),
        )

    def _noted(self, owner_of: Callable[[str], Owner]) -> Callable[[str], Owner]:
        def look_up(token: str) -> Owner:
            self.count += 1
            return owner_of(token)

        return look_up

    def status(self, token: str, address: str = "192.0.2.7") -> int:
        path = "/clusters/beta/sync" if token.startswith("rbc-") else "/clusters/beta"
        method = "POST" if token.startswith("rbc-") else "GET"
        try:
            self.gate.admit(method, path, authorization=f"Bearer {token}", request_id="r", address=address)
        except RainbowError as error:
            return error.status
        return 200


@pytest.mark.parametrize("mark", ["rbu-", "rbc-"])
def test_wrong_tokens_of_an_address_are_soon_not_looked_up_and_the_right_ones_still_are(mark: str) -> None:
    lookups = Lookups()
    assert [lookups.status(f"{mark}{number:08x}-wrong") for number in range(5)] == [401, 401, 401, 429, 429]
    assert lookups.count == 3
    assert [lookups.status(token) for token in (USER, AGENT, TOKEN)] == [200, 200, 200]
    assert lookups.status("neither a user's nor an agent's") == 429
    assert lookups.status(f"{mark}ffffffff-wrong", address="192.0.2.8") == 401
    lookups.now = 60.0
    assert lookups.status(f"{mark}eeeeeeee-wrong") == 401


def test_wrong_tokens_for_one_token_are_soon_not_looked_up_wherever_they_come_from() -> None:
    lookups = Lookups()
    guesses = [lookups.status(f"{USER[:12]}-guess{number}", address=f"192.0.2.{number}") for number in range(5)]
    assert guesses == [401, 401, 401, 429, 429]
    assert lookups.count == 3
    assert lookups.status(USER, address="192.0.2.4") == 200
    assert lookups.status("rbu-00000000-other", address="192.0.2.4") == 401


def test_wrong_shared_tokens_are_limited_too() -> None:
    lookups = Lookups()
    assert [lookups.status(f"wrong-{number}") for number in range(5)] == [401, 401, 401, 429, 429]
    assert lookups.status(TOKEN) == 200
    with pytest.raises(TooManyAttempts, match="a right token is accepted at once") as refusal:
        lookups.gate.admit("GET", "/x", authorization="Bearer wrong", request_id="r", address="192.0.2.7")
    assert refusal.value.retry_after == 60
    with pytest.raises(Unauthenticated):  # no token is no wrong one
        lookups.gate.admit("GET", "/x", authorization=None, request_id="r", address="192.0.2.7")


def test_whether_there_are_users_is_not_asked_for_an_open_path() -> None:
    def fail() -> bool:
        raise AssertionError

    health = Gate(tokens=None, cluster_of=cluster_of, operations=ROUTES, has_users=fail)
    assert health.admit("GET", "/healthz", authorization=None, request_id="r") == ANYBODY


@pytest.mark.parametrize("token", [TOKEN, None])
@pytest.mark.parametrize("has_users", [True, False])
def test_an_openid_token_proves_its_user(token: str | None, has_users: bool) -> None:
    guarded = gate(token, has_users, has_provider=True)
    authorization = "Bearer head.of-ana.signature"
    assert guarded.admit("GET", "/projects/x", authorization=authorization, request_id="r").identity == ANA


@pytest.mark.parametrize("token", [TOKEN, None])
@pytest.mark.parametrize("has_users", [True, False])
def test_with_a_provider_every_caller_must_log_in_or_have_another_token(token: str | None, has_users: bool) -> None:
    guarded = gate(token, has_users, has_provider=True)

    def admit(authorization: str | None, path: str = "/executions/p/d/n") -> Caller:
        return guarded.admit("GET", path, authorization=authorization, request_id="r")

    for authorization, reason in (
        (None, "Run `rainbowctl login`"),
        ("Bearer a.b.c", "JSON Web Token"),
        ("Bearer whatever", "Run `rainbowctl login`, or check --token-file"),
        ("Bearer rbu-0b0b0b0b-wrong", "does not count" if has_users else "Run `rainbowctl login`"),
    ):
        with pytest.raises(Unauthenticated, match=reason):
            admit(authorization)
    assert admit(None, "/healthz") == ANYBODY
    assert admit(f"Bearer {AGENT}") == BETA
    if has_users:
        assert admit(f"Bearer {USER}") == ADA
    if token is not None:
        assert admit(f"Bearer {TOKEN}").identity == Identity(user="shared-token", proof=Proof.SHARED_TOKEN)


def test_only_the_agent_of_a_cluster_is_its_agent() -> None:
    BETA.check_agent_of("beta")
    for caller, cluster in ((BETA, "gamma"), (ANYBODY, "beta"), (ADA, "beta")):
        with pytest.raises(Unauthenticated, match="own agent"):
            caller.check_agent_of(cluster)


def test_a_request_is_named_by_its_route() -> None:
    assert gate().route("GET", "/executions/p/d/n") == "/executions/<project>/<domain>/<name>"
    assert gate().route("GET", "/projects/a/b") == "/projects/<rest:id>"
    assert gate().route("PATCH", "/projects/a/b") == "unknown"


def test_a_request_keeps_an_id_that_can_stand_in_a_log() -> None:
    assert accept_request_id("mine-7") == "mine-7"
    for header in (None, "", "not acceptable", "x" * 129, "a\nb"):
        assert len(accept_request_id(header)) == 20


@pytest.mark.parametrize("token", [TOKEN, OTHER])
def test_each_of_the_operators_tokens_is_good(token: str) -> None:
    assert admit("GET", "/clusters/beta", f"Bearer {token}") == OPERATOR


def test_a_token_is_replaced_with_an_overlap_and_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, now = tmp_path / "token", [0.0]
    file.write_text(f"{TOKEN}\n")
    tokens = TokenFile(str(file), clock=lambda: now[0])
    file.write_text(f"{OTHER}\n{TOKEN}\n")
    assert tokens() == (TOKEN.encode(),)  # read once a second at most
    now[0] = 1.0
    assert tokens() == (OTHER.encode(), TOKEN.encode())
    file.write_text(f"{OTHER}\n")
    now[0] = 2.0
    assert tokens() == (OTHER.encode(),)
    for unusable in ("short\n", "", ""):
        file.write_text(unusable)
        now[0] += 1.0
        assert tokens() == (OTHER.encode(),)
    file.unlink()
    now[0] += 1.0
    assert tokens() == (OTHER.encode(),)
    assert caplog.messages.count("the former tokens stay good") == 2  # each problem is told once
    file.write_text(f"{TOKEN}\n")
    now[0] += 1.0
    assert tokens() == (TOKEN.encode(),)


@pytest.mark.parametrize("text", ["", "\n\n", "short", f"{TOKEN}\nshort", "0123456789 abcdef", "0123456789abcdé!"])
def test_a_file_without_safe_tokens_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(Invalid, match="at least 16 plain characters"):
        TokenFile(str(file))
