"""Placement: from a request and the settings to one cluster, and every step on the way.

routes      which pool, label or cluster counts: the most specific rung
candidates  the clusters of that route, and the workload that needs one
filters     which of them are able, and why the others are not
scores      how a pool's strategy ranks those
choice      one of the best ranked, by weight, the same for the same execution every time
decisions   all of it, in order
"""
