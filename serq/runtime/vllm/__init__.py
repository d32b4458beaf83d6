"""The V1 engine of vLLM 0.27.1 without a clock: requests, queues, KV cache, scheduler, engine core.

Rule ids S-nnn are those of the fact file ``vllm_v1_scheduler``. Time is an opaque number: microseconds
in a replay, seconds in a simulation. Nothing here knows SimPy, sessions or prices.
"""
