"""Blocks that are read at once come to what their lines come to, one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serq.errors import DataError
from serq.runtime.trace.azure import AzureReader
from serq.runtime.trace.blocks import RowReader, parts_in
from serq.runtime.trace.columns import ROWS_A_PART, Trace
from serq.runtime.trace.mooncake import MooncakeReader
from serq.runtime.trace.reading import read_trace
from serq.runtime.trace.session_csv import HEADER, TIMED_HEADER, SessionReader
from serq.source import blocks_in


class SessionLines(SessionReader):
    """Takes no block to be plain."""

    def read_plain(self, block: str) -> int:
        return 0


class AzureLines(AzureReader):
    """Takes no block to be plain."""

    def read_plain(self, block: str) -> int:
        return 0


class MooncakeLines(MooncakeReader):
    """Takes no block to be plain."""

    def read_plain(self, block: str) -> int:
        return 0


Outcome = list[bytes | None] | str


def outcome(reader: RowReader, blocks: list[str]) -> Outcome:
    """All columns, to the bit, or the error."""
    try:
        trace = Trace.joined(parts_in(reader, blocks))
    except DataError as error:
        return str(error)
    columns = (trace.new, trace.out, trace.think, trace.forced, trace.first_row, trace.times)
    ids = None if trace.hash_ids is None else json.dumps([ids.tolist() for ids in trace.hash_ids]).encode()
    return [None if column is None else column.tobytes() for column in columns] + [ids]


# --- files with faults and oddities ---------------------------------------------------------------------

COUNTS = st.integers(0, 4000).map(str)
DECIMALS = st.builds("{}.{}".format, st.integers(0, 10**7), st.from_regex(r"[0-9]{1,9}", fullmatch=True))
ODD_NUMBERS = st.sampled_from(
    [
        *(
            "",
            "-0",
            "-5",
            "+5",
            "007",
            "1.",
            ".5",
            "0.5",
            "0.7",
            "1_0",
            "nan",
            "inf",
            "Infinity",
            "1e5",
            "1e-5",
        ),
        *("1e400", "9" * 400, "9" * 309, "0." + "0" * 400 + "1", "1.2.3", " 1", "1 ", "\u0661", "x", '"5"'),
        *("18446744073709551615", "18446744073709551616", "36893488147419103232", "9007199254740993", "true"),
        *("0.12345678949999", "1234567.1234567891", "null", "[1", "1]", "4.4999999995", "0x10", "-0.0"),
    ]
)
STRAY_LINES = st.sampled_from(
    [
        *(
            "",
            " ",
            "# comment",
            HEADER,
            TIMED_HEADER,
            "session",
            "\u2028",
            "\x1c",
            "x",
            ",,,,,,",
            "\t0,1,2,3,4",
        ),
        *("0,0,1,2,3", "0,0,1,2,3,4", "0,0,1,2,3,4,", "0,0,1,2,3,4,5", "{}", "[]", "2023-11-16 18:15:46,1,2"),
    ]
)
STRAY_CHARACTERS = st.sampled_from([*"\r\t ,.;+-_0e\"'[]{}:#\x00\u00a0\u0661", "\r\n", ",,", "}{", "} {"])


@st.composite
def session_files(draw: st.DrawFn) -> list[str]:
    """Lines of a session CSV: sessions of one or several rows, now and then an odd number."""
    width = draw(st.sampled_from([5, 6, 7]))
    header = {5: "session,turn,new,out,think", 6: HEADER, 7: TIMED_HEADER}[width]
    lines = [header] if width == 7 or draw(st.booleans()) else []
    odd = draw(st.sampled_from([0, 0, 1, 3]))
    start = draw(st.sampled_from(["0", "0.0", "12.25"]))
    most_rows = draw(st.sampled_from([1, 1, 3]))
    for session in range(draw(st.integers(1, 12))):
        for turn in range(draw(st.integers(1, most_rows))):
            row = [str(session), str(turn), *(draw(COUNTS) for _ in range(width - 3))]
            if width == 7:
                first = turn == 0
                row[5:] = [draw(COUNTS), (draw(DECIMALS) if session else start) if first else ""]
            else:
                row.append(draw(DECIMALS))
            lines.append(",".join(row))
    return draw(with_odd_numbers(lines, odd))


@st.composite
def with_odd_numbers(draw: st.DrawFn, lines: list[str], odd: int) -> list[str]:
    """The lines of a CSV, ``odd`` fields of which become odd numbers."""
    for _ in range(odd):
        line = draw(st.integers(0, len(lines) - 1))
        fields = lines[line].split(",")
        fields[draw(st.integers(0, len(fields) - 1))] = draw(ODD_NUMBERS)
        lines[line] = ",".join(fields)
    return lines


@st.composite
def azure_files(draw: st.DrawFn) -> list[str]:
    """Lines of an Azure CSV in the form of 2023 or 2024, now and then in another one."""
    fraction, zone = draw(st.sampled_from([(7, ""), (6, "+00:00")] * 2 + [(3, ""), (9, "Z"), (6, "-07:30")]))
    between = draw(st.sampled_from([" ", "T"]))
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for _ in range(draw(st.integers(1, 12))):
        day, second = draw(st.integers(1, 30)), draw(st.integers(0, 3599))
        digits = draw(st.integers(0, 10**fraction - 1))
        date = f"2023-{draw(st.sampled_from(['11', '11', '11', '02']))}-{day:02d}"
        stamp = f"{date}{between}18:{second // 60:02d}:{second % 60:02d}"
        counts = f"{draw(COUNTS)},{draw(COUNTS)}"
        lines.append(f"{stamp}.{digits:0{fraction}d}{zone},{counts}")
    return draw(with_odd_numbers(lines, draw(st.sampled_from([0, 0, 1]))))


@st.composite
def mooncake_files(draw: st.DrawFn) -> list[str]:
    """Lines of Mooncake JSONL, now and then with a wrong number of hash ids."""
    lines = []
    for _ in range(draw(st.integers(1, 12))):
        prompt = draw(st.integers(0, 3000))
        ids = [
            draw(st.integers(0, 9)) for _ in range(-(-prompt // 512) + draw(st.sampled_from([0] * 20 + [1])))
        ]
        row = {"timestamp": draw(st.integers(0, 10**6)) / 8, "input_length": prompt}
        lines.append(json.dumps({**row, "output_length": draw(st.integers(0, 99)), "hash_ids": ids}))
    return lines


@st.composite
def blocks(draw: st.DrawFn, files: st.SearchStrategy[list[str]]) -> list[str]:
    """A file, some characters and lines of it changed, cut into blocks of whole lines."""
    lines = draw(files)
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        place = draw(st.integers(0, len(lines)))
        match draw(st.sampled_from(["line in", "line out", "twice", "character", "character", "broken"])):
            case "line in":
                lines.insert(place, draw(STRAY_LINES))
            case "line out":
                del lines[place : place + 1]
            case "twice":
                lines[place:place] = lines[place : place + 1]
            case "broken" if place < len(lines):
                cut = draw(st.integers(0, len(lines[place])))
                lines[place : place + 1] = [lines[place][:cut], lines[place][cut:]]
            case "character" if place < len(lines):
                at = draw(st.integers(0, len(lines[place])))
                until = at + draw(st.integers(0, 1))
                lines[place] = lines[place][:at] + draw(STRAY_CHARACTERS) + lines[place][until:]
    end = draw(st.sampled_from(["\n", "\n", "\n", "\r\n"]))
    text = end.join(lines) + draw(st.sampled_from([end, end, ""]))
    whole = list(StringIO(text, newline="\n"))
    size = draw(st.integers(1, 8))
    return ["".join(whole[at : at + size]) for at in range(0, len(whole), size)]


@given(blocks(session_files()))
def test_session_csv(given: list[str]) -> None:
    assert outcome(SessionReader("t"), given) == outcome(SessionLines("t"), given)


@given(blocks(azure_files()))
def test_azure_csv(given: list[str]) -> None:
    assert outcome(AzureReader("t"), given) == outcome(AzureLines("t"), given)


@given(blocks(mooncake_files()))
def test_mooncake_jsonl(given: list[str]) -> None:
    assert outcome(MooncakeReader("t"), given) == outcome(MooncakeLines("t"), given)


@given(st.lists(st.one_of(DECIMALS, COUNTS), min_size=1))
def test_a_time_of_nine_digits_is_not_changed_by_rounding_it(times: list[str]) -> None:
    """Which is why times after a first one of 0 are taken as they are."""
    assert [round(float(time), 9) for time in times] == [float(time) for time in times]


def test_two_rows_on_one_line_and_one_on_two_lines_are_refused() -> None:
    """As many rows as lines, and yet no line is a row."""
    row = '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1]}'
    found = outcome(MooncakeReader("t"), [f"{row}\n", f"{row} {row[:16]}\n{row[16:]}\n"])
    assert isinstance(found, str) and found.startswith("t:2: ") and "1 more bad row: line 3" in found


# --- plain files are read at once -----------------------------------------------------------------------

ROWS = 4 * ROWS_A_PART


def sessions(end: str) -> Iterator[str]:
    for row in range(ROWS):
        yield f"{row},0,{row % 900},{1 + row % 7},0.5,0{end.format(row // 8, row % 8 * 125)}"


def turns(end: str) -> Iterator[str]:
    """Sessions of five rows, cut by blocks and parts wherever these end."""
    for row in range(ROWS):
        time = end.format(row) if row % 5 == 0 else ","
        yield f"{row // 5},{row % 5},{row % 900},{1 + row % 7},0.5,0{time}"


def azure(form: str) -> Iterator[str]:
    for row in range(ROWS):
        minute, second = divmod(row // 8, 60)
        stamp = form.format(f"2024-05-10 {10 + minute // 60}:{minute % 60:02d}:{second:02d}", row % 8 * 125)
        yield f"{stamp},{row % 900},{1 + row % 7}"


def mooncake() -> Iterator[str]:
    for row in range(ROWS):
        ids = [row] * -(-(row % 900) // 512)
        yield json.dumps(
            {"timestamp": row * 125, "input_length": row % 900, "output_length": 1 + row % 7, "hash_ids": ids}
        )


AZURE_HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("reader", "header", "rows", "rows_a_session"),
    [
        (SessionReader, HEADER, lambda: sessions(""), 1),
        (SessionReader, TIMED_HEADER, lambda: sessions(",{}.{:03d}"), 1),
        (SessionReader, TIMED_HEADER, lambda: turns(",{}"), 5),
        (AzureReader, AZURE_HEADER, lambda: azure("{}.{:03d}0000"), 1),
        (AzureReader, AZURE_HEADER, lambda: azure("{}.{:03d}000+00:00"), 1),
        (MooncakeReader, None, mooncake, 1),
    ],
)
def test_of_a_plain_file_only_the_header_is_read_as_a_line(
    reader: Callable[[str], RowReader],
    header: str | None,
    rows: Callable[[], Iterator[str]],
    rows_a_session: int,
    line_end: str,
) -> None:
    reading = reader("t")
    one_by_one = 0
    read_line = reading.read_line

    def counted(number: int, line: str) -> None:
        nonlocal one_by_one
        one_by_one += 1
        read_line(number, line)

    reading.read_line = counted  # type: ignore[method-assign]
    text = "".join(row + line_end for row in rows())
    first = [] if header is None else [header + line_end]
    parts = list(parts_in(reading, [*first, *blocks_in(StringIO(text, newline="\n"))]))
    assert one_by_one == len(first)
    assert len(parts) >= 3 and all(ROWS_A_PART <= part.turns < 2 * ROWS_A_PART for part in parts[:-1])
    trace = Trace.joined(parts)
    assert list(trace.new) == [row % 900 for row in range(ROWS)]
    assert list(trace.out) == [1 + row % 7 for row in range(ROWS)]
    assert list(trace.first_row) == [*range(0, ROWS, rows_a_session), ROWS]
    if trace.times is not None:
        gap = 0.125 if rows_a_session == 1 else 5.0
        assert list(trace.times) == [gap * session for session in range(trace.sessions)]


@pytest.mark.parametrize("header", [HEADER, TIMED_HEADER])
def test_a_bad_row_of_long_numbers_is_refused_at_once(tmp_path: Path, header: str) -> None:
    """A pattern that may split a number in many ways would try them all, for all fields together."""
    trace = tmp_path / "long.csv"
    trace.write_text(f"{header}\n{','.join(['1' * 40] * (header.count(',') + 1))}x\n", encoding="utf-8")
    began = process_time()
    with pytest.raises(DataError, match="is not a number"):
        read_trace(trace)
    assert process_time() - began < 1.0
