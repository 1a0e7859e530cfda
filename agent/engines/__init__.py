"""Engines: what runs an execution on a cluster, behind one small interface."""
