"""Time: the clock, sessions, pools, stages, workload, schedulers and engines."""
