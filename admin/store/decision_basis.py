"""What decisions are based on: one number for each thing whose change could change a decision.

Adding a number takes a field of `DecisionBasis` and an entry of `_TABLES`; every change of what it stands for must
increment it in the same transaction.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, select

from admin.core.quantities import LARGEST
from admin.store import fleet
from admin.store.dialects.postgresql import AHEAD, advisory_lock
from admin.store.fleet import FLEET_LOCK
from admin.store.fleet_tables import fleet_head
from admin.store.registration_tables import registration_head
from admin.store.revision_tables import revision_head
from admin.store.row_changes import MADE_ABOVE, MadeAbove, read_made_above


class DecisionBasis(NamedTuple):
    """The numbers that a decision was made at; it holds for as long as they are the same."""

    revision: int  #: of settings and definitions
    registrations: int  #: of workflows and launch plans
    fleet: int  #: of clusters and their states


#: The table with one row that holds each number; the fleet, whose row is locked, comes last.
_TABLES = {"revision": revision_head, "registrations": registration_head, "fleet": fleet_head}

_READ = select(*(select(table.c.number).scalar_subquery() for table in _TABLES.values()))

_subqueries = [f"(SELECT number FROM {table.name}) AS current_{name}" for name, table in _TABLES.items()]
#: For statements of PostgreSQL that write by a basis: common tables of which `basis` has the numbers, while the fleet
#: is locked shared until the transaction ends; and their comparison with parameters of the same names.
POSTGRESQL_BASIS = f"""fleet_lock AS MATERIALIZED (
  SELECT {advisory_lock(FLEET_LOCK, shared=True)}
), basis AS MATERIALIZED (
  SELECT {", ".join(_subqueries[:-1])}, number AS current_fleet
  FROM fleet_lock CROSS JOIN {fleet_head.name} FOR SHARE OF {fleet_head.name}
)"""
POSTGRESQL_IS_EXPECTED = " AND ".join(f"current_{name} = :{name}" for name in DecisionBasis._fields)


#: Beside each of the changes after a revision.
_READ_WITH_CHANGES = MADE_ABOVE.add_columns(
    *(select(table.c.number).scalar_subquery().label(f"current_{name}") for name, table in _TABLES.items())
)


#: Locks the head first: read in the same statement, what is beside the head might be older than the head itself.
_LOCK_AND_READ = _READ_WITH_CHANGES.execution_options(**{AHEAD: f"SELECT number FROM {revision_head.name} FOR UPDATE"})


def read_with_changes(connection: Connection, revision: int, *, lock: bool = False) -> tuple[DecisionBasis, MadeAbove]:
    """The basis as of a transaction, and what was made after a revision; with `lock` other writers wait."""
    query = _LOCK_AND_READ if lock else _READ_WITH_CHANGES
    rows = connection.execute(query, {"number": revision, "head": LARGEST}).all()
    return DecisionBasis._make(rows[0][-len(_TABLES) :]), read_made_above(rows)


def read(connection: Connection, *, share: bool = False) -> DecisionBasis:
    """The basis as of a transaction; with `share` the fleet stays the same until the transaction ends."""
    if share:
        fleet.share(connection)
    return DecisionBasis._make(connection.execute(_READ).one())
