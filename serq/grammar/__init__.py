"""The text language: from a program's text to its linked IR, and back to text in its usual form."""

from serq.grammar.link import Linked, link_program

__all__ = ["Linked", "link_program"]
