"""The fleet: clusters, and the pools and labels that group them."""
