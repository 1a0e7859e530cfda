"""The agent: stands beside a cluster and talks to the admin over HTTP only."""
