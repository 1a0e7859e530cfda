"""`get pool NAME --shares`: what a pool promises its clusters, what it placed there, and why."""

from __future__ import annotations

from datetime import UTC, datetime

from ctl.cli.output import Columns, Printer
from ctl.cli.session import Session
from ctl.cli.windows import named_by_flags
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.times import parse_time

#: How executions come to a cluster by other routes.
_ROUTES = {"cluster": "named", "label": "by label", "pool": "by another pool", "any": "by no name"}


def show_shares(session: Session, name: str, since: str | None, until: str | None, by: str | None = None) -> None:
    """Print the shares of a pool in the output format in use."""
    now, printer = datetime.now(UTC), session.printer.folded()
    with named_by_flags():
        shares = session.client.pool_shares(
            name,
            after=parse_time(since, "--since", now=now) if since else None,
            before=parse_time(until, "--until", now=now, is_end=True) if until else None,
            by=by,
        )
    if by is not None and "groups" not in shares:
        raise InvalidInput("The admin is of an earlier version, which counts no shares by user or project: omit --by.")
    if printer.machine_output([f"pool/{name}"], shares):
        return
    printer.sentence(str(shares.get("summary") or f"pool {name}, strategy {shares.get('strategy')}"))
    if shares.get("promise"):
        printer.sentence(str(shares["promise"]))
    printer.line(f"created   {printer.when(shares['after'])} to {printer.when(shares['before'])}")
    unplaced = f", {shares['unplaced']} that no cluster could take yet" if shares.get("unplaced") else ""
    printer.sentence(f"placed    {shares['placed']}{unplaced}")
    if not shares.get("complete"):
        printer.line(f"counted   the newest {shares['examined']} of {shares['total']}")
        printer.line(f"          since {printer.when(shares['examined_since'])}")
    printer.line()
    if by is not None:
        columns: Columns = {
            by.upper(): by,
            "PLACED": "placed",
            "SHARE": lambda group: _percent(group["share"]),
        }
        if shares["groups"]:
            printer.rows(shares["groups"], columns)
        _tell_not_counted(printer, shares)
        return
    printer.rows(shares["clusters"], _COLUMNS)
    # The first sentence has said it of some already.
    told = [cluster for cluster in shares["clusters"] if f": {cluster.get('why')}" not in str(shares.get("summary"))]
    if any(cluster.get("why") for cluster in told):
        printer.line()
        for cluster in told:
            printer.sentence(f"{cluster['cluster']}: {cluster.get('why')}.", indent="  ")
    _tell_not_counted(printer, shares)


def _tell_not_counted(printer: Printer, shares: Document) -> None:
    for sentence in shares.get("not_counted") or []:
        printer.sentence(sentence)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _instead_of(cluster: Document) -> str:
    return ", ".join(f"{other['cluster']} {other['reason']}: {other['count']}" for other in cluster["instead_of"])


def _otherwise(cluster: Document) -> str:
    return ", ".join(f"{_ROUTES.get(kind, kind)}: {number}" for kind, number in sorted(cluster["otherwise"].items()))


_COLUMNS: Columns = {
    "CLUSTER": "cluster",
    "WEIGHT": lambda cluster: f"{cluster['weight']:g}" if "weight" in cluster else "",
    "PROMISED": lambda cluster: _percent(cluster.get("promised_share")),
    "PLACED": "placed",
    "EXPECTED": lambda cluster: "{low} to {high}".format(**cluster["expected"]) if cluster.get("expected") else "",
    "SHARE": lambda cluster: _percent(cluster.get("share")),
    "BY STRATEGY": "by_strategy",
    "INSTEAD OF": _instead_of,
    "BESIDE THE POOL": _otherwise,
}
