"""Use cases: each function does what a route, a loop or a command asks for, in one transaction or from memory.

What is set         changes → changeable, change_commits, change_drafts; rollbacks, later_revisions; attributes,
                    projects, fleet → definitions; revisions, past_definitions; effective, comparisons, nearest
What is registered  registrations → catalogs; registered_work
What is run         creations → run_requests, launches, preparations, decision_views; placements → simulators,
                    fits; executions, terminations, logs
What agents do      agents (tokens); syncs → exchanges, exchange_batches → reports, leases, successions, reconciliations
What loops do       redecisions → deciders, redecision_rounds; evictions (silent clusters), abandonments (executions
                    that are given up), queueing_budgets, retention
What is explained   explanations → statuses, obstacles, attempts, non_candidates; consequences → unable_clusters;
                    refusals, field_provenance, cluster_provenance; timeline; shares
What is previewed   previews, affected_scopes, lost_rights, switches; uses → use_search, use_reach; reach
What is wrong       warnings → row_warnings, no_effect, refused_workflows, capped_defaults, deletions; silences,
                    clocks, state; unknown_names, unknown_grantees, absent_users
What all of them use  context, scopes, known_scopes, waiting, database_failures
"""
