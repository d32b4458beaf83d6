"""The fast path of the scheduler: decodes in bulk, steps planned ahead, equal to the walk in everything."""
