"""The command line of Rainbow, and the client library under it."""
