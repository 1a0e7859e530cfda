"""`get domain`."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows, refuse_choice
from ctl.cli.options import Argument, completer
from ctl.cli.session import Session
from ctl.client.errors import NotFound
from ctl.client.words import did_you_mean

_LISTING = Listing(fields={"id": "id", "name": "name"}, prefixes=("domain",), order="id")


@command(
    help="Show the domains, which every project has.",
    params=[
        Argument(
            "domain", required=False, metavar="[ID]", explanation="One domain.", shell_complete=completer("domain_ids")
        ),
        *_LISTING.options(),
    ],
    examples=["rainbowctl get domain", "rainbowctl get domains -o name"],
)
def get_domain(session: Session, domain: str | None, **flags: Any) -> None:
    if domain is None:
        domains = choose_rows(session, session.client.domains(), flags, _LISTING, "domain")
    else:
        refuse_choice(flags, domain)
        domains = list(session.client.domains())
        ids = [str(entry["id"]) for entry in domains]
        domains = [entry for entry in domains if entry["id"] == domain]
        if not domains:
            raise NotFound(f"There is no domain {domain!r}.{did_you_mean(domain, ids)}", name="domain_not_found")
    document = domains if domain is None else domains[0]
    names = (f"domain/{entry['id']}" for entry in domains)
    session.printer.show(names, domains, document, {"ID": "id", "NAME": "name"})
