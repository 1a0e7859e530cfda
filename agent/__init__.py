"""The agent: runs executions on a cluster, and talks to the admin over HTTP only."""
