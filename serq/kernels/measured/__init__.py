"""What a step costs by operator tables that others measured: reading them, looking them up, composing a step.

The tables are those of the LLMServingSim profiler (MIT): kernel times of one layer on one device, by token
count, by sequence count, and over a grid of mixed batches. Nothing here is fitted to a run.
"""
