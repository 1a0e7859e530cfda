"""The agent: runs executions on a cluster, and talks to the admin over HTTP only.

main        the command line, which reads config and starts the loop
loop        one sync after the other, through transport and calls
work        every execution that it has a lease of: leases, intents, guard, tasks, events
outbox      events and logs that the admin has not accepted yet
reporter    what the cluster has, and what is free
status      log lines, and the status line at the foot of a terminal
engines     what runs the jobs: local, slurm
"""
