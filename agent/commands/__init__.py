"""The commands of rainbow-agent."""
