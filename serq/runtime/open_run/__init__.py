"""Runs in which nobody who is served changes who comes: the engines run ahead of the clock.

Where sessions send one request and then only note what came of it, arrivals are known before anything is
served. Then no event is needed: between two arrivals an engine goes from step end to step end in one loop,
and those who have ended are told afterwards, in the order of time. What is recorded is what engines on the
clock record, to the last bit.

What this loop does not know it does not guess: it raises LeaveOpenRun, and the run begins anew on the clock.
"""
