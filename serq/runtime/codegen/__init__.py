"""Programs become Python functions, once: no loop of a run walks a tree of nodes."""
