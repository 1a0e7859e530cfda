"""Constraints: ordered rules of filter, calculation, sort and pick, by which a pool or a request chooses a cluster.

expressions  one expression: read, checked, and evaluated with bounds
facts        what expressions may name of clusters and jobs
rules        the rules of a definition or request, checked and prepared
ranking      the rules applied to candidates: who is dropped, and in which order the others stand
outcomes     why a candidate of a stored decision lost by its rules
"""
