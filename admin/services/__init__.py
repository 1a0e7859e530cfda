"""Use cases: each function does what a route, a loop or a command asks for, in one transaction or from memory.

What is set         changes → changeable, change_commits; attributes, projects, fleet → definitions; revisions;
                    effective
What is registered  registrations → catalogs
What is run         creations → run_requests, launches, preparations, decision_views, creation_cache; placements;
                    executions, logs
What agents do      agents (tokens); syncs → exchanges, exchange_batches → reports, leases, successions, reconciliations
What loops do       redecisions (what waits), evictions (silent clusters), abandonments (what is given up), retention
What is said of it  warnings, silences, clocks, state
What all of them use  context, scopes, waiting, database_failures
"""
