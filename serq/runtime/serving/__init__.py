"""`vllm` stages and their requests on the clock: the clock-free engine core, driven by a simulation."""
