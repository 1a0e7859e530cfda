"""`make bench`: runs the benchmarks, prints one table, writes bench/results.json.

`python -m bench.servers` compares WSGI servers; it needs gunicorn, gevent, waitress and cheroot beside ours.
"""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import attributes


def main() -> None:
    results = attributes.run()
    ceiling = {row["database"]: row["per_second"] for row in results if row["what"] == "empty route"}
    table = Table(title="16 connections on loopback, load on the same cores", title_justify="left")
    for name in ("database", "what", "requests/s", "of the empty route", "p50 ms", "p99 ms", "failures"):
        table.add_column(name, justify="left" if name in ("database", "what") else "right")
    for row in results:
        table.add_row(
            row["database"],
            row["what"],
            f"{row['per_second']:,.0f}",
            f"{row['per_second'] / ceiling[row['database']]:.2f}",
            f"{row['p50']:.1f}",
            f"{row['p99']:.1f}",
            str(row["failures"]),
        )
    Console(width=110).print(table)
    Path(__file__).with_name("results.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
