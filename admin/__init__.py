"""The admin service: settings kept by scope, resolved, and explained."""

__version__ = "0.1.0"
