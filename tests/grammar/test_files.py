"""Programs of several files (R-A-006)."""

from __future__ import annotations

from os.path import normpath
from pathlib import Path

import pytest

from serq.errors import CompileError, MissingFileError
from serq.grammar import Linked, link_program
from serq.grammar.printer import format_source
from serq.ir.nodes import Number, Observe
from serq.source import SourceFile
from tests.shared import ROOT


def link(files: dict[str, str]) -> Linked:
    def load(path: str, user: SourceFile) -> SourceFile:
        path = normpath(Path(user.name).parent / path)
        if path not in files:
            raise MissingFileError(f"program {path}: no such file")
        return SourceFile(path, files[path])

    return link_program(SourceFile("main.sq", files["main.sq"]), loader=load)


def test_a_used_file_stands_in_the_place_of_its_use() -> None:
    linked = link(
        {
            "main.sq": 'let a = 1; use "lib.sq"; let c = b + 1; session { watch(c); }',
            "lib.sq": "let b = a + 1; def watch(x) { observe v = x; }",
        }
    )
    assert linked.program.session == (Observe("v", Number(3.0), id=0),)
    place = linked.source_map.locate(0)
    assert place is not None and (place.source.name, place.text) == ("lib.sq", "observe v = x;")


def test_a_mistake_names_the_file_it_is_in() -> None:
    with pytest.raises(CompileError) as refused:
        link({"main.sq": 'use "lib.sq";\nsession { observe v = gone; }', "lib.sq": "\nlet b = ghost;"})
    assert [wrong.place for wrong in refused.value.diagnostics] == ["lib.sq:2:9", "main.sq:2:23"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"main.sq": 'use "gone.sq";'}, "program gone.sq: no such file"),
        ({"main.sq": 'use "main.sq";'}, "`main.sq` uses itself: main.sq -> main.sq"),
        (
            {"main.sq": 'use "a.sq";', "a.sq": 'use "b.sq";', "b.sq": 'use "a.sq";'},
            "`a.sq` uses itself: main.sq -> a.sq -> b.sq -> a.sq",
        ),
    ],
)
def test_a_file_that_cannot_be_used(files: dict[str, str], message: str) -> None:
    with pytest.raises(CompileError) as refused:
        link(files)
    (wrong,) = refused.value.diagnostics
    assert (wrong.code, wrong.message) == ("E220", message)


def test_a_text_without_a_file_uses_nothing() -> None:
    with pytest.raises(CompileError) as refused:
        link_program(SourceFile("<text>", 'use "lib.sq";'))
    assert refused.value.diagnostics[0].code == "E220"


def test_a_file_used_twice_is_read_once() -> None:
    linked = link(
        {
            "main.sq": 'use "a.sq"; use "b.sq"; session { observe v = f(1) + g(1); }',
            "a.sq": 'use "lib/c.sq"; def f(x) = one(x);',
            "b.sq": 'use "./lib/../lib/c.sq"; def g(x) = one(x);',
            "lib/c.sq": "def one(x) = x + 1;",
        }
    )
    assert len(linked.program.session) == 1


def test_a_path_is_relative_to_the_file_it_is_written_in() -> None:
    linked = link(
        {
            "main.sq": 'use "lib/a.sq"; session { observe v = n; }',
            "lib/a.sq": 'use "b.sq"; use "../c.sq";',
            "lib/b.sq": "let m = 2;",
            "c.sq": "let n = m + 1;",
        }
    )
    assert linked.program.session == (Observe("v", Number(3.0), id=0),)


def test_a_file_of_the_library_is_found_from_anywhere() -> None:
    text = 'use "serq/load.sq"; session { observe v = random_length(3, 0); }'
    with_file = link({"main.sq": text})
    assert link_program(SourceFile("<text>", text)).program == with_file.program


def test_a_file_beside_the_program_goes_before_the_library() -> None:
    files = {
        "main.sq": 'use "serq/load.sq"; session { observe v = random_length(3, 0); }',
        "serq/load.sq": "def random_length(a, b) = 1;",
    }
    assert link(files).program.session == (Observe("v", Number(1.0), id=0),)


def test_a_name_that_the_library_does_not_have() -> None:
    for text in ('use "serq/lode.sq";', 'use "serq/../library/load.sq";'):
        with pytest.raises(CompileError) as refused:
            link({"main.sq": text})
        (wrong,) = refused.value.diagnostics
        assert wrong.code == "E220" and "serq/load.sq" in wrong.message


def test_files_of_the_library_are_in_the_usual_form_and_compile() -> None:
    files = sorted((ROOT / "serq" / "library").glob("*.sq"))
    assert files
    for file in files:
        text = file.read_text("utf-8")
        assert format_source(SourceFile(str(file), text)) == text
        link_program(SourceFile(str(file), text))
