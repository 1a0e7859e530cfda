"""`make bench`: measures on a temporary SQLite and a temporary PostgreSQL, prints tables, writes bench/results.json.

`python -m bench NAME...` runs some benches only, and writes a file of their own. With `--quick`, which measures each
for a moment, or `--database`, nothing is written.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Iterator
from importlib import import_module

from bench import databases, results, tables
from bench.databases import Backend
from bench.figures import Figure, Figures
from bench.load import QUICK, Pace
from bench.promises import judged
from bench.stolen_time import STOLEN

#: The benches, in the order of the table; each runs on both databases.
BENCHES = {
    "effective": "bench.effective",
    "attributes": "bench.attributes",
    "changes": "bench.changes",
    "creations": "bench.creations",
    "users": "bench.users",
    "leases": "bench.leases",
    "tokens": "bench.tokens",
    "decisions": "bench.decisions",
    "graphs": "bench.graphs",
    "namespaces": "bench.namespaces",
    "commands": "bench.commands",
    "console": "bench.console",
    "peers": "bench.peers.measured",
}
#: The benches of `make bench-large`.
LARGE = {
    "memory": "bench.memory",
    "waiting": "bench.waiting",
    "answers": "bench.answers",
    "growth": "bench.growth",
}


def main() -> None:
    """Run the benches of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"benches to run: {', '.join({**BENCHES, **LARGE})}")
    parser.add_argument("--quick", action="store_true", help="measure for a moment, to see that everything works")
    parser.add_argument("--large", action="store_true", help="run the long benches instead")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), help="on this kind of database only")
    options = parser.parse_args()
    benches = {**BENCHES, **LARGE}
    unknown = [name for name in options.names if name not in benches]
    if unknown:
        parser.error(f"there is no bench {', '.join(unknown)}; there are {', '.join(benches)}")
    names = options.names or list(LARGE if options.large else BENCHES)
    _allow_descriptors()
    failed: list[str] = []
    measured = list(_measured(names, options.database, QUICK if options.quick else Pace(), failed))
    order = list(benches)
    figures = Figures(sorted(measured, key=lambda figure: order.index(figure.bench)))
    promises = judged(figures)
    tables.show(figures)
    tables.show_promises([promise for promise in promises if promise.kept is not None])
    if not (options.quick or options.database or failed):
        of_set = results.LARGE if options.large else results.STANDARD
        results.save(results.of_benches(names) if options.names else of_set, figures, promises)
    print(f"Time stolen by other machines: {STOLEN}.", file=sys.stderr)
    for line in failed:
        print(line, file=sys.stderr)
    sys.exit(1 if failed else 0)


def _allow_descriptors() -> None:
    """A thousand agents need a connection each, on both sides."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))


def _measured(names: list[str], only: str | None, pace: Pace, failed: list[str]) -> Iterator[Figure]:
    """The figures of the benches; a bench that fails is reported and left out."""
    for backend in _backends(only):
        for name in names:
            begin = time.monotonic()
            try:
                yield from import_module({**BENCHES, **LARGE}[name]).run(backend, pace)
            except Exception as error:
                failed.append(f"{name} on {backend.name} failed: {error!r}")
            print(f"{name} on {backend.name}: {time.monotonic() - begin:.0f} s", file=sys.stderr)


def _backends(only: str | None) -> Iterator[Backend]:
    if only in (None, "sqlite"):
        with databases.sqlite() as backend:
            yield backend
    if only in (None, "postgresql"):
        if not databases.has_postgresql():
            print("PostgreSQL is not installed: its figures are left out.", file=sys.stderr)
            return
        with databases.postgresql() as backend:
            yield backend


if __name__ == "__main__":
    main()
