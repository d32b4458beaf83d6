from __future__ import annotations

import re

from tests.shared import ROOT

PAGE = (ROOT / "docs" / "run-errors.md").read_text("utf-8")
CODE = re.compile(r'(?:code=|Diagnostic\(\s*|plan\.statement, )"([a-z-]+)"')


def test_every_code_of_a_run_is_explained() -> None:
    """Errors and warnings alike."""
    folders = (ROOT / "serq" / "runtime", ROOT / "serq" / "kernels")
    files = [file for folder in folders for file in folder.rglob("*.py")]
    codes = {code for file in files for code in CODE.findall(file.read_text("utf-8"))}
    assert {"negative-amount", "no-time-passes", "engine-never-ran"} <= codes
    assert not {code for code in codes if f"`{code}`" not in PAGE}
