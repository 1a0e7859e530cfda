"""Switches of a cluster: what each would do to executions, and doing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response

from admin.console.answers import ask, asked_query
from admin.console.commands import tried_and_done
from admin.console.filters import page
from admin.console.fleet import SWITCHES
from admin.console.pages import Pages, go_to, is_unconfirmed, render, shown_again
from admin.core.problems import Invalid
from admin.errors import PathNotFound

pages = Pages("switches")

_PATH = "/fleet/clusters/<name>/<switch>"
#: What each of them does to new work and to what the cluster has.
_MEANINGS = {
    "admit": "Lets the cluster in, which registered and waits for that.",
    "enable": "Lets the cluster take part in placement.",
    "disable": "Takes the cluster out of use: no new work, and what waits there is decided again.",
    "cordon": "Gives the cluster no new work. What its agent has goes on.",
    "uncordon": "Gives the cluster work again.",
    "drain": "Gives the cluster no new work, and decides again what waits there. What runs may finish until the "
    "deadline; without one it is not ended.",
    "undrain": "Gives the cluster work again.",
}
#: What they have done, as the notice after them tells it.
_DONE = {
    "admit": "is admitted",
    "enable": "is enabled",
    "disable": "is disabled",
    "cordon": "is cordoned",
    "uncordon": "is not cordoned any more",
    "drain": "drains",
    "undrain": "does not drain any more",
}
#: Those that take work away, and ask for the name of the cluster.
_ASKING = ("cordon", "drain", "disable")


@pages.add("GET", _PATH, permission="clusters.switch")
def preview_switch(name: str, switch: str) -> str:
    """What a switch would do."""
    return _preview(name, switch, asked_query("deadline", "reason"))


@pages.add("POST", _PATH, permission="clusters.switch")
def switch_cluster(form: Mapping[str, str], name: str, switch: str) -> Response:
    """Switch a cluster, after a confirmation that names it where work would be taken away."""
    given = {key: form[key].strip() for key in ("deadline", "reason") if form.get(key, "").strip()}
    _check(switch)
    if switch in _ASKING and is_unconfirmed(form, name):
        return shown_again(_preview(name, switch, given))
    try:
        switched = ask(f"{switch}_cluster", body=given, path={"name": name})
    except Invalid as refusal:
        return shown_again(_preview(name, switch, given, refusal))
    notice = f"{name} {_DONE[switch]}." if switched["changed"] else f"Nothing was changed: {name} was so before."
    return go_to(page("fleet", "clusters", name), notice)


def _preview(name: str, switch: str, given: Mapping[str, str], refusal: Invalid | None = None) -> str:
    _check(switch)
    deadline = {"deadline": given["deadline"]} if "deadline" in given else {}
    try:
        preview = _dry_run(name, switch, deadline)
    except Invalid as wrong:
        refusal = refusal or wrong
        preview = _dry_run(name, switch, {})
    words = [switch, name, *(word for key, value in given.items() for word in (f"--{key}", value))]
    return render(
        "fleet/switch.html",
        title=f"{switch.capitalize()} {name}",
        commands=tried_and_done(words),
        name=name,
        switch=switch,
        meaning=_MEANINGS[switch],
        is_asking=switch in _ASKING,
        preview=preview,
        given=given,
        problems={problem.field: problem.reason for problem in refusal.problems} if refusal else {},
    )


def _dry_run(name: str, switch: str, body: Mapping[str, str]) -> Any:
    return ask(f"{switch}_cluster", {"dry_run": True}, dict(body), path={"name": name})


def _check(switch: str) -> None:
    if switch not in SWITCHES:
        raise PathNotFound(f"There is no action '{switch}' of clusters; there is {', '.join(sorted(SWITCHES))}.")
