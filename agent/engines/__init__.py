"""Engines: the back ends that run executions on a cluster, behind one small interface."""
