"""The gate: every request's id and its caller, settled once before any front answers it.

It knows nothing of Flask: a front gives it a method, a path and what it needs of the headers, and gets a `Caller` or an
error to answer with. An agent's token is limited to its own cluster. Users are known by their tokens, or by those of an
OpenID provider; as soon as there is a user or a provider, every request needs a token. Until then the operators' shared
token allows everything, and an admin without one admits every caller that no proxy speaks for. Of wrong tokens only so
many are looked up.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple, TypeVar

from admin.core.changes import ANONYMOUS
from admin.core.identities import SHARED_TOKEN_USER, Identity, Proof, agent_name
from admin.core.problems import invalid
from admin.core.provenance import ANYBODY, Actor
from admin.errors import Busy, Forbidden, RainbowError, Unauthenticated
from admin.services import tokens
from admin.services.wrong_attempts import WrongTokens

#: How large a body may be that needs no token.
MOST_OPEN_BYTES = 64 * 1024
#: How many tokens of agents and users are looked up at once, a query for callers that are not authenticated yet.
MOST_LOOKUPS = 256
#: How many wrong tokens of one address are looked up within a minute, unless configured otherwise.
MOST_WRONG_TOKENS = 60

_USERS_NEED_TOKENS = (
    "This admin has users, so every request needs a token: set RAINBOW_TOKEN to one of yours. `rainbowctl create "
    "user-token USER` makes another one; on the admin's host `rainbow-admin create-token USER` makes the first."
)
_NOT_OF_A_USER = (
    "The bearer token is none that this admin accepts. Check RAINBOW_TOKEN; on the admin's host `rainbow-admin "
    "create-token USER` makes one."
)
_NEEDS_LOGIN = "This admin needs a login. Run `rainbowctl login`, or give a token with --token-file or RAINBOW_TOKEN."
_NOT_OF_A_LOGIN = (
    "The bearer token is none that this admin accepts. Run `rainbowctl login`, or check --token-file and RAINBOW_TOKEN."
)
_FORWARDED = (
    "This request came through a proxy, and this admin without users and without a token serves its own machine alone. "
    "Make the first user on its host with `rainbow-admin create-token USER --create --file FILE`, or start it with "
    "--apiTokenFile FILE; then send a token."
)
#: The header of further tokens, and how many it may have.
MORE_TOKENS = "Rainbow-Tokens"
MOST_ADDED = 32
_OF_OTHERS = f"The tokens of one request are of one user: leave those of others out of {MORE_TOKENS}."
_NOT_ALIKE = (
    "The tokens of one request add up where they are narrowed to the same but for their clusters: leave the others out "
    f"of {MORE_TOKENS}."
)
_NOT_THE_SHARED_TOKEN = "The bearer token is not the one that this admin accepts. Check RAINBOW_TOKEN."

Owner = TypeVar("Owner", str, Identity)

_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
#: In a JSON Web Token, which tells it from all other tokens.
_DOTS = 2
_NAMED = re.compile(r"\(\?P<[a-z_]+>")
#: A parameter in the path of an operation: whether it is the rest of it, and its name.
PARAMETER = re.compile(r"<(rest:)?([a-z_]+)>")


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """Who sent a request."""

    request_id: str  #: shared by the answer, the log line and the revision
    identity: Identity = ANYBODY

    @property
    def cluster(self) -> str | None:
        """The cluster whose agent is calling, proven by its token."""
        return self.identity.cluster

    def actor(self, claimed_by: str | None = None) -> Actor:
        """Who it is, as what they do records it, with the name that they gave."""
        return Actor.of_identity(self.identity, claimed_by)

    def check_agent_of(self, cluster: str) -> None:
        """Refuse every caller but a cluster's own agent; the operators' token is not enough."""
        if self.cluster != cluster:
            raise Unauthenticated(
                "Only the cluster's own agent may do this, with the token that `rainbow-agent register` gets."
            )


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path, as far as the gate needs to know it."""

    method: str
    path: str  #: with <name> for a segment and <rest:name> for all that remains
    is_open: bool = False  #: needs no token
    guarded_with_users: bool = False  #: whether one that is open needs a token once callers are users
    for_agents: bool = False  #: a cluster's token is enough
    most_bytes: int | None = None  #: of its body, where it may be larger than others


class _Route(NamedTuple):
    pattern: re.Pattern[str]
    path: str
    for_agents: bool
    most_bytes: int | None


class Gate:
    """Identifies callers, and refuses those that may not do what they ask for."""

    def __init__(
        self,
        *,
        tokens: Callable[[], tuple[bytes, ...]] | None,
        cluster_of: Callable[[str], str],
        operations: Iterable[Operation],
        open_folders: Iterable[str] = (),
        user_of: Callable[[str], Identity] | None = None,
        has_users: Callable[[], bool] = lambda: False,
        act_as: Callable[[Identity, str], Identity] | None = None,
        has_users_now: Callable[[], bool] | None = None,
        identify: Callable[[str], Identity] | None = None,
        serves_openly: bool = False,
        wrong_tokens: WrongTokens | None = None,
        is_live: Callable[[str], bool] = lambda _token: False,
        session_of: Callable[[str], Identity] | None = None,
    ) -> None:
        """
        Parameters
        ----------
        tokens
            Gives the operators' tokens; None where none is required.
        cluster_of
            Gives the cluster of an agent's token.
        open_folders
            Paths below which nothing needs a token.
        user_of
            Gives the user of a user's token.
        has_users
            Tells whether there are users, so that every request needs a token.
        act_as
            Gives the identity of a caller who acts as a user, if that is allowed.
        has_users_now
            Tells the same, never from a cache; by default `has_users`.
        identify
            Gives the user of an OpenID token; None where no provider is configured.
        serves_openly
            Whether everybody may come where no token is required, also through a proxy.
        wrong_tokens
            Counts wrong tokens; by default, those of this gate.
        is_live
            Tells whether an agent's or a user's token is good, without a query for it alone.
        session_of
            Gives whose session of the console an id is of.
        """
        self._session_of = session_of
        self._identify_openid = identify
        self._wrong_tokens = WrongTokens(MOST_WRONG_TOKENS) if wrong_tokens is None else wrong_tokens
        self._is_live = is_live
        self._serves_openly = serves_openly
        self._cluster_of = cluster_of
        self._user_of = user_of
        self._has_users = has_users
        self._act_as = act_as
        self._has_users_now = has_users_now or has_users
        self._lookups = [None] * MOST_LOOKUPS  #: free places
        self._tokens = tokens
        self._routes: dict[str, list[_Route]] = {}
        open_paths: dict[str, list[str]] = {}
        guarded_paths: dict[str, list[str]] = {}  #: what is open only as long as callers are no users
        for operation in sorted(operations, key=lambda operation: operation.path.count("<")):
            pattern = _pattern(operation.path)
            for method in _methods(operation.method):
                for_agents = operation.for_agents and method == operation.method
                route = _Route(re.compile(pattern), operation.path, for_agents, operation.most_bytes)
                self._routes.setdefault(method, []).append(route)
                if operation.is_open:
                    open_paths.setdefault(method, []).append(pattern)
                if operation.guarded_with_users:
                    guarded_paths.setdefault(method, []).append(pattern)
        for folder in open_folders:
            for method in _methods("GET"):
                open_paths.setdefault(method, []).append(rf"{re.escape(folder)}(?s:/.*)?")
        self._open = _by_method(open_paths)
        self._guarded = _by_method(guarded_paths)

    def admit(
        self,
        method: str,
        path: str,
        *,
        authorization: str | None,
        request_id: str,
        more_tokens: str | None = None,
        act_as: str | None = None,
        address: str = "",
        is_forwarded: bool = False,
        session: str | None = None,
    ) -> Caller:
        """The caller of a request; Unauthenticated or Forbidden where it may not be made, Busy where it may later.

        `more_tokens` are others of the same user, with commas between; `act_as` is the user whom the caller wants to
        act as. `is_forwarded` says that a proxy has passed it on, so that its caller may be anywhere. After too many
        wrong tokens from an `address`, TooManyAttempts for further wrong ones. `session` is the id of a session of the
        console, which proves its user where there is no token.
        """
        if self.is_open(method, path) and not (_is_among(self._guarded, method, path) and self._knows_users()):
            return Caller(request_id=request_id)
        token = _bearer(authorization)
        if token is not None and token.startswith(tokens.CLUSTER.mark):
            route = self._find(method, path)
            if route is not None:
                agent = self._admit_agent(route, path, token, request_id, address)
                if act_as is not None:
                    raise Forbidden("An agent acts as nobody else: leave out Rainbow-As.").of_caller(
                        agent.identity.user
                    )
                return agent
        identity = self.identify(token, address, is_forwarded=is_forwarded, session=session)
        if more_tokens and identity.proof is not Proof.NONE:
            identity = self._add_tokens(identity, more_tokens, address)
        if act_as is not None and self._act_as is not None:
            identity = self._act_as(identity, act_as)
        return Caller(request_id=request_id, identity=identity)

    def _knows_users(self) -> bool:
        """Whether callers are users, of this admin or of an OpenID provider."""
        return self._identify_openid is not None or self._has_users()

    @property
    def takes_tokens(self) -> bool:
        """Whether callers must prove who they are."""
        return self._has_users() or self._tokens is not None or self._identify_openid is not None

    def identify(
        self, token: str | None, address: str, *, is_forwarded: bool = False, session: str | None = None
    ) -> Identity:
        """Who calls with a token that is no agent's, or with none; Unauthenticated where that is not enough."""
        has_users = self._has_users()
        if not has_users and token is not None and token.startswith(tokens.USER.mark):
            has_users = self._has_users_now()  # its user may be the first one, made a moment ago
        if not has_users and self._tokens is None and self._identify_openid is None:
            if is_forwarded and not self._serves_openly:
                raise Unauthenticated(_FORWARDED)
            return ANYBODY
        if token is None and session is not None and self._session_of is not None:
            with self._lookup():
                return self._session_of(session)
        if token is None:
            raise Unauthenticated(self._no_token(has_users))
        if has_users and token.startswith(tokens.USER.mark) and self._user_of is not None:
            return self._look_up(self._user_of, token, address)
        # Compared with all of them, so that the time taken tells nothing.
        accepted = () if self._tokens is None else self._tokens()
        if sum(hmac.compare_digest(token.encode(), shared) for shared in accepted):
            knows_users = has_users or self._identify_openid is not None
            return Identity(user=SHARED_TOKEN_USER if knows_users else ANONYMOUS, proof=Proof.SHARED_TOKEN)
        if self._identify_openid is not None and token.count(".") == _DOTS:
            try:
                return self._identify_openid(token)
            except Unauthenticated as wrong:
                # What such tokens begin with says nothing of whose they are.
                raise self._refuse(wrong, None, address) from wrong
        raise self._refuse(Unauthenticated(self._wrong_token(has_users)), token, address)

    def _add_tokens(self, identity: Identity, more: str, address: str) -> Identity:
        """A caller who sends several tokens: each is for some clusters, and together they are for all of these."""
        added = [token.strip() for token in more.split(",")]
        if len(added) > MOST_ADDED:
            raise invalid(MORE_TOKENS, f"has {len(added)} tokens; {MOST_ADDED} are the most.")
        for token in added:
            if identity.proof is not Proof.TOKEN or self._user_of is None or not token.startswith(tokens.USER.mark):
                raise Unauthenticated(
                    f"{MORE_TOKENS} takes tokens of users (rbu-…), beside another one of the same user."
                )
            other = self._look_up(self._user_of, token, address)
            if other.user != identity.user:
                raise Forbidden(_OF_OTHERS).of_caller(identity.user)
            if other.token is not None:
                identity = replace(identity, more_tokens=(*identity.more_tokens, other.token))
            if identity.narrowed is not None and other.narrowed is not None:
                narrowed = identity.narrowed.with_use_of(other.narrowed)
                if narrowed is None:
                    raise Forbidden(_NOT_ALIKE).of_caller(identity.user)
                identity = replace(identity, narrowed=narrowed)
            else:  # one of them is as good as its user
                identity = replace(identity, narrowed=None)
        return identity

    def _no_token(self, has_users: bool) -> str:
        if self._identify_openid is not None:
            return _NEEDS_LOGIN
        return _USERS_NEED_TOKENS if has_users else ""

    def _wrong_token(self, has_users: bool) -> str:
        if self._identify_openid is not None:
            return _NOT_OF_A_LOGIN
        return _NOT_OF_A_USER if has_users else _NOT_THE_SHARED_TOKEN

    def route(self, method: str, path: str) -> str:
        """The path of the operation that a request is for, as metrics name it."""
        route = self._find(method, path)
        return "unknown" if route is None else route.path

    def project(self, method: str, path: str) -> str | None:
        """The project that the path of a request names, known or not."""
        route = self._find(method, path)
        match = None if route is None else route.pattern.fullmatch(path)
        return None if match is None else match.groupdict().get("project")

    def most_bytes(self, method: str, path: str) -> int | None:
        """How large the body of a request may be, where it may be larger than others."""
        route = self._find(method, path)
        return None if route is None else route.most_bytes

    def is_open(self, method: str, path: str) -> bool:
        """Whether a request needs no token."""
        return _is_among(self._open, method, path)

    def _find(self, method: str, path: str) -> _Route | None:
        for route in self._routes.get(method, ()):
            if route.pattern.fullmatch(path):
                return route
        return None

    def _admit_agent(self, route: _Route, path: str, token: str, request_id: str, address: str) -> Caller:
        cluster = self._look_up(self._cluster_of, token, address)
        names_cluster = "/clusters/<name>" in route.path
        match = route.pattern.fullmatch(path)
        is_own = not names_cluster or (match is not None and match["name"] == cluster)
        if not route.for_agents or not is_own:
            raise Forbidden(
                f"The token of cluster '{cluster}' is not for this. It may sync and rotate its own cluster, "
                "and create and read executions."
            ).of_caller(agent_name(cluster))
        identity = Identity(user=agent_name(cluster), proof=Proof.AGENT, cluster=cluster)
        return Caller(request_id=request_id, identity=identity)

    def _look_up(self, owner_of: Callable[[str], Owner], token: str, address: str) -> Owner:
        """The cluster or user of a token; a wrong one that is one too many is not looked up."""
        with self._lookup():
            seconds = self._wrong_tokens.seconds_left(address, token)
            if seconds and not self._is_live(token):
                raise self._wrong_tokens.refusal(seconds)
            try:
                return owner_of(token)
            except Unauthenticated:
                self._wrong_tokens.add(address, token)
                raise

    @contextmanager
    def _lookup(self) -> Iterator[None]:
        """One of the places for callers who are looked up; Busy where there is none."""
        try:
            place = self._lookups.pop()  # of a list, which no two threads can do at once
        except IndexError:
            raise Busy() from None
        try:
            yield
        finally:
            self._lookups.append(place)

    def _refuse(self, wrong: Unauthenticated, token: str | None, address: str) -> RainbowError:
        """The error for a wrong token: that it is wrong, or that there were too many."""
        seconds = self._wrong_tokens.seconds_left(address, token)
        if seconds:
            return self._wrong_tokens.refusal(seconds)
        self._wrong_tokens.add(address, token)
        return wrong


def accept_request_id(header: str | None) -> str:
    """The id that a request brings, or a new one where that is missing or unusable."""
    return header if header is not None and _ACCEPTABLE_ID.fullmatch(header) else secrets.token_hex(10)


def _bearer(authorization: str | None) -> str | None:
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if token.strip() and scheme.lower() == "bearer" else None


def _methods(method: str) -> list[str]:
    """The methods that reach an operation: servers answer HEAD for GET, and OPTIONS for everything."""
    return ["GET", "HEAD", "OPTIONS"] if method == "GET" else [method, "OPTIONS"]


def _by_method(patterns: Mapping[str, Iterable[str]]) -> dict[str, re.Pattern[str]]:
    """What matches any of the paths of each method."""
    return {
        # Without the names of parameters, which several alternatives may have.
        method: re.compile("|".join(_NAMED.sub("(?:", alternative) for alternative in alternatives))
        for method, alternatives in patterns.items()
    }


def _is_among(patterns: Mapping[str, re.Pattern[str]], method: str, path: str) -> bool:
    pattern = patterns.get(method)
    return pattern is not None and pattern.fullmatch(path) is not None


@cache
def _pattern(path: str) -> str:
    """A path as an expression; a slash at its end makes no difference."""
    pattern, end = "", 0
    for parameter in PARAMETER.finditer(path):
        segment = "(?s:.+)" if parameter[1] else "[^/]+"
        pattern += f"{re.escape(path[end : parameter.start()])}(?P<{parameter[2]}>{segment})"
        end = parameter.end()
    return f"{pattern}{re.escape(path[end:])}/?"
