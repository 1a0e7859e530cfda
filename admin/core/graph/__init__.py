"""Resource graphs: what a cluster has, vertex by vertex, what a job asks of it, and whether that fits.

`descriptions` reads a cluster's description into a `ClusterGraph` (`described_vertices`, `described_edges` and
`described_subsystems` its parts, `tree_builder` the whole), `requests` holds what jobs ask for, `summaries` answers
"never" without a search, `matching` searches, `shortages` says what is missing. `backends` is all that placement asks
of what keeps the graphs, `memory` the one that there is, and `machines` and `rooms` are what callers use.
"""
