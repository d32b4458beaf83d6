"""How a place in a text is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from serq.errors import DataError
from serq.source import Diagnostic, SourceFile, Span, blocks_of, check_text, lines_in, read_text


def shown(text: str, start: int, end: int) -> list[str]:
    return Diagnostic("E999", "here", SourceFile("a.sq", text), Span(start, end)).render().splitlines()


def test_a_caret_stands_under_the_place() -> None:
    assert shown("let a = 1;\nlet b = ghost;\n", 19, 24) == [
        "a.sq:2:9: error[E999]: here",
        " 2 | let b = ghost;",
        "   |         ^^^^^",
    ]


def test_tabs_stay_so_that_the_caret_stays_under_its_place() -> None:
    assert shown("\t\tset x = 1;", 2, 5)[1:] == [" 1 | \t\tset x = 1;", "   | \t\t^^^"]


def test_of_a_long_line_the_part_around_the_place_is_shown() -> None:
    line = "a" * 200 + "HERE" + "b" * 200
    excerpt, carets = shown(line, 200, 204)[1:]
    assert len(excerpt) < 130
    assert excerpt[carets.index("^") : carets.rindex("^") + 1] == "HERE"
    assert excerpt.removeprefix(" 1 | ").startswith("…a") and excerpt.endswith("b…")


def test_a_place_over_several_lines_is_marked_on_its_first() -> None:
    assert shown("hold p (1) {\n}\n", 0, 14)[1:] == [" 1 | hold p (1) {", "   | ^^^^^^^^^^^^"]


def test_a_place_at_the_end_of_the_text_has_one_caret() -> None:
    assert shown("stage", 5, 6)[1:] == [" 1 | stage", "   |      ^"]


@pytest.mark.parametrize(
    "data",
    [
        b"plain\n",
        b"\xef\xbb\xbfmarked\n",
        b"a\0b",
        b"",
        "caf\u00e9".encode("latin-1"),
        b"\xef\xbb\xbf\xff",
        b"a" * (2**20 - 1) + "\u00e9".encode(),
        b"a" * (2**20 - 1) + b"\xc3",
        b"a" * (2**20 - 1) + b"\xc3(",
        b"\xff" + b"a" * 2**20 + b"\0",
        b"cut \xe2\x82",
    ],
)
def test_a_text_is_checked_as_it_would_be_read(tmp_path: Path, data: bytes) -> None:
    """Whatever reading the file whole says, checking it block by block says too."""
    path = tmp_path / "text"
    path.write_bytes(data)
    try:
        text = read_text(path, "trace")
    except DataError as error:
        with pytest.raises(DataError) as caught:
            check_text(path, "trace")
        assert str(caught.value) == str(error)
    else:
        check_text(path, "trace")
        blocks = list(blocks_of(path, "trace"))
        assert "".join(blocks) == text
        assert all(block.endswith("\n") for block in blocks[:-1])


def test_a_block_ends_where_a_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "text"
    lines = [f"{number:05d}\r\u2028" for number in range(20_000)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    blocks = list(blocks_of(path, "trace"))
    assert len(blocks) > 10 and max(map(len, blocks)) < 10_000
    assert [line for block in blocks for line in lines_in(block)] == lines


@pytest.mark.parametrize("name", ["none", "."])
def test_a_text_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError) as read:
        read_text(tmp_path / name, "trace")
    with pytest.raises(DataError) as checked:
        check_text(tmp_path / name, "trace")
    assert str(read.value) == str(checked.value)
