"""The rules. Pure Python: no Flask, no SQLAlchemy, no clock, no randomness, no imports from other packages.

settings    scopes, kinds, and what a kind resolves to at a scope
jobs        what an execution runs, and the documents it is read from
fleet       clusters, pools and labels
placement   which cluster, and why
executions  from a request to a run plan, and the lifecycle after it
fields      the types of fields that kinds, jobs and definitions are made of
"""
