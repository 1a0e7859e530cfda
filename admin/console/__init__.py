"""The console: pages for a browser, which show what REST answers."""
