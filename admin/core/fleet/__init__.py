"""The fleet: clusters, and the pools and labels that group them.

definitions  clusters, pools and labels as they were declared
clusters     a definition with its state and its agent's report
fleet        clusters, pools and labels at one moment, and the warnings about them
documents    reads definitions from what users write

How a pool's strategy ranks clusters is in `placement.scores`.
"""
