"""Every code block of README and docs does what the page says."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

import serq
from serq.cli import main
from tests.docs.blocks import PAGES, ROOT, Block, blocks, output_of, serq_commands

ALL = [block for page in PAGES for block in blocks(page)]
KINDS = {"serq", "sh", "python", "text output", "text", ""}


def of_kind(*kinds: str) -> list[Block]:
    return [block for block in ALL if block.kind in kinds]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_every_kind_of_block_is_run() -> None:
    assert {block.kind for block in ALL} <= KINDS
    assert len(of_kind("serq")) > 20 and len(of_kind("text output")) > 5


def name(value: object) -> str | None:
    return value.name if isinstance(value, Block) else None


@pytest.mark.parametrize("block", [block for block in of_kind("serq") if block.file is None], ids=name)
def test_programs(block: Block) -> None:
    refusal = re.search(r"^//! (.+)$", block.text, re.MULTILINE)
    if refusal is not None:
        with pytest.raises(serq.SerqError, match=re.escape(refusal[1])):
            serq.run(serq.compile(source=block.text))
        return
    report = serq.run(serq.compile(source=block.text))
    for observation, samples in re.findall(r"^//> (\w+): (.+)$", block.text, re.MULTILINE):
        assert report.records.series[observation].values == [float(sample) for sample in samples.split()]


@pytest.mark.parametrize("block", [block for block in ALL if block.file is not None], ids=name)
def test_files_are_shown_as_they_are(block: Block) -> None:
    assert block.text == (ROOT / str(block.file)).read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    commands: list[list[str]] = []
    shown = True
    for block in blocks(page):
        if block.kind == "sh":
            if not shown:
                output_of(commands)
            commands, shown = serq_commands(block), False
        elif block.kind == "text output":
            assert output_of(commands) == block.text, f"{block.name}: run `python -m tests.docs.blocks`"
            shown = True
    if not shown:
        output_of(commands)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python(page: Path) -> None:
    names: dict[str, object] = {}
    for block in blocks(page):
        if block.kind == "python":
            exec(compile(block.text, block.name, "exec"), names)


LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        if target.startswith("http"):
            continue
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{page.name}: {target}#{anchor}"


@pytest.mark.slow
@pytest.mark.parametrize("block", [b for b in of_kind("sh") if "python3 -m venv" in b.text], ids=name)
def test_commands_of_the_first_screen_on_a_fresh_clone(block: Block, tmp_path: Path) -> None:
    import subprocess

    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=clone, check=True)
    shutil.rmtree(clone)


def test_the_first_screen_has_exactly_two_commands() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text("utf-8").splitlines()[:24])
    commands = re.findall(r"```sh\n(.*?)```", first_screen, re.DOTALL)
    assert len(commands) == 2
    assert all(len(command.strip().splitlines()) == 1 and shlex.split(command) for command in commands)


def test_the_readme_names_every_command() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert not [name for name in main.commands if f"`serq {name}`" not in readme]


def test_the_readme_leads_to_every_page() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"formatting.md", "step-plans.md"}
    assert not {page for page in pages if f"docs/{page}" not in readme}
