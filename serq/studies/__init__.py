"""Questions that take many runs: sweeps over settings, the load that an objective allows, better options.

A study compiles its points here, runs them on this machine's cores or on a cluster, and keeps every result in
a folder as soon as it exists.
"""
