"""Cluster resources: makes the namespaces of projects on this cluster, as the admin renders them."""
