"""Cluster resources: the Kubernetes objects of each project and domain, made from templates and values."""
