"""The definition of a program: nodes, moments, validation, JSON."""
