"""The fleet: clusters, and the pools and labels that group them.

definitions  clusters, pools and labels as they were declared
clusters     a definition with its state and its agent's report
fleet        clusters, pools and labels at one moment, and the warnings about them

`fleet_documents` beside this package reads definitions; how a pool's strategy ranks clusters is in `placement.scores`.
"""
