"""Placement: from a request and the settings to one cluster, and every step on the way.

routes             which pool, label or cluster counts: the most specific rung
candidates         the clusters of that route, and the workload that needs one
filters            which of them are able, and why the others are not
scores             how a pool's strategy ranks those
constraints        the rules of pools and requests that have them
assessments        both for every cluster of a pool or label
choice             one of the best ranked, by weight, the same for the same execution every time
decisions          all of it, in order
obstacles          why no cluster takes an execution, and what must happen until one does
stored_candidates  the candidates of a stored decision, with the reason of every loser
non_candidates     the clusters of the fleet that were not candidates, and why
capacity           what a cluster, a pool or a label has free
shares             how the work of a pool was divided, beside its weights
"""
