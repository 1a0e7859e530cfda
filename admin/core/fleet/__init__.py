"""The fleet: clusters, and the pools and labels that group them.

definitions      clusters, pools and labels as they were declared
cluster_reports  what an agent says of its cluster
clusters         a definition with its state
groups           pools and labels
fleet            all of them at one moment

`fleet_documents` beside this package reads definitions; how a pool's strategy ranks clusters is in `placement.scores`.
"""
