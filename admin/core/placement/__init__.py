"""Placement: from what was asked and set to one cluster, and every step on the way.

routes      which pool, label or cluster counts: the most specific statement
filters     which of its clusters are able, and why the others are not
strategies  which of those are best
choices     which of the best, by weight, the same for the same execution every time
decisions   all of it, in order
"""
