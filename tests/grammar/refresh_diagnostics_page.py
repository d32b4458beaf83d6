"""``python -m tests.grammar.refresh_diagnostics_page`` writes the messages of docs/diagnostics.md anew.

Read what it changed before you commit it: the page is a promise to people who search for a message.
"""

from __future__ import annotations

from tests.grammar.test_diagnostics_page import PAGE, examples, found
from tests.shared import ROOT


def refreshed() -> str:
    page = PAGE
    for example in examples():
        before = f"```{example.language}\n{example.text}\n```\n\n```text\n"
        message = "\n\n".join(diagnostic.render() for diagnostic in found(example))
        page = page.replace(f"{before}{example.message}\n```", f"{before}{message}\n```")
    return page


if __name__ == "__main__":
    (ROOT / "docs" / "diagnostics.md").write_text(refreshed(), "utf-8")
