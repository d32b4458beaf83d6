"""Runs in which engines go ahead of the clock: between two events of sessions they need none.

An engine goes from step end to step end in one loop. Where sessions send one request and then only note what
came of it, arrivals are known before anything is served, and nothing at all is on the clock: those who have
ended are told afterwards, in the order of time (`driver`). Other sessions are on the clock, and engines come
up to its next event, or to the first end of a request (`sessions`). What is recorded is what engines on the
clock record, to the last bit.

What this loop does not know it does not guess: it raises LeaveOpenRun, and the run begins anew on the clock.
"""
