"""A run as one page of HTML that needs nothing else: the answer, figures, tables, what it all rests on."""

from serq.results.page.page import as_page

__all__ = ["as_page"]
