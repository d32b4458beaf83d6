"""Speed against the peers: the same workloads through serq and through every peer that is installed.

``python -m benchmarks`` is the command; ``benchmarks/README.md`` says what it measures and how.
"""
