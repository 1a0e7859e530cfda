"""Resource graphs: what a cluster has, vertex by vertex, what a job asks of it, and whether that fits.

`descriptions` reads a cluster's description into a `ClusterGraph`, `requests` holds what jobs ask for, `summaries`
answers "never" without a search, `matching` searches, `shortages` says what is missing, and `backends` is what callers
use.
"""
