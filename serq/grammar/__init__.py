"""Text to linked IR: lexing, parsing, names, linking, formatting."""
