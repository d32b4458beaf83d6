"""serq: an LLM serving deployment as a short program, run as an exact discrete-event model."""

__version__ = "0.1.0"
