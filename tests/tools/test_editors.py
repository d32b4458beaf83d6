"""Editors know every word of the language and are told of a program what the compiler says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pygments import lex
from pygments.token import Error, Keyword, Name

from serq.grammar import tables
from serq.tools import language_server, meanings, words
from serq.tools.highlighting import SerqLexer
from serq.tools.textmate import GRAMMAR_FILE, as_json, grammar

ROOT = Path(__file__).parents[2]
GRAMMAR_WORDS = {
    terminal.pattern.value
    for terminal in tables.load().terminals
    if terminal.pattern.type == "str" and terminal.pattern.value.isidentifier()
}


def test_every_word_of_the_grammar_is_known_and_no_other():
    assert GRAMMAR_WORDS == words.KEYWORDS | words.AGGREGATES


@pytest.mark.parametrize("word", sorted(words.KEYWORDS))
def test_pygments_colours_every_keyword(word):
    (token, value), *_ = lex(f"{word} ;", SerqLexer())
    assert value == word and token in Keyword


@pytest.mark.parametrize("word", sorted(words.CALLABLE - words.KEYWORDS))
def test_pygments_colours_every_function(word):
    (token, value), *_ = lex(f"{word}(x)", SerqLexer())
    assert value == word and token in Name.Builtin


def test_the_text_is_kept_and_examples_hold_nothing_unknown():
    for file in sorted((ROOT / "examples").rglob("*.sq")):
        text = file.read_text("utf-8")
        tokens = list(lex(text, SerqLexer()))
        assert "".join(value for _, value in tokens) == text
        assert not [value for kind, value in tokens if kind is Error], file


def test_the_file_of_vs_code_is_as_generated_and_knows_every_word():
    file = ROOT / "editors" / "vscode" / "syntaxes" / GRAMMAR_FILE.name
    assert file.read_text("utf-8") == as_json(), "run `python -m serq.tools.textmate`"
    matches = " ".join(str(pattern.get("match", "")) for pattern in grammar()["patterns"])
    listed = set(matches.replace("(?:", " ").replace(")", " ").replace("|", " ").replace("\\b", " ").split())
    assert listed >= words.KEYWORDS | words.CALLABLE | words.DRAWS | words.OPTIONS | words.READINGS
    package = json.loads((ROOT / "editors" / "vscode" / "package.json").read_text("utf-8"))
    assert package["contributes"]["grammars"][0]["scopeName"] == grammar()["scopeName"]


def test_every_supplied_name_has_a_meaning():
    assert set(meanings.FUNCTION_MEANINGS) == words.CALLABLE | words.DRAWS
    assert set(meanings.READING_MEANINGS) | set(meanings.FUNCTION_MEANINGS) >= words.READINGS
    assert "vLLM" not in (meanings.meaning("now") or "")
    assert "default 128" in (meanings.meaning("max_num_seqs") or "")
    assert meanings.meaning("my_own_name") is None


PROGRAM = """let rate = 2;
stage desk : fifo;
workload { arrive poisson(rate); }
session { run desk (1); set x = now; observe done = x + oops; }
run { horizon 10; }
"""


def test_mistakes_stand_where_the_compiler_puts_them():
    (found,) = language_server.diagnostics(PROGRAM, None)
    line = PROGRAM.splitlines()[3]
    column = line.index("oops")
    assert found.range == ((3, column), (3, column + 4))
    assert "oops" in found.diagnostic.message
    assert language_server.diagnostics(PROGRAM.replace(" + oops", ""), None) == []


def test_a_file_that_is_missing_is_a_diagnostic(tmp_path):
    (found,) = language_server.diagnostics('use "missing.sq";', tmp_path / "p.sq")
    assert "missing.sq" in found.diagnostic.message


@pytest.mark.parametrize(
    ("word", "line", "made"),
    [("rate", 2, (0, 4)), ("desk", 3, (1, 6)), ("x +", 3, (3, 28))],
)
def test_names_lead_to_where_they_are_made(word, line, made):
    column = PROGRAM.splitlines()[line].rindex(word)
    found = language_server.definition(PROGRAM, line, column)
    assert found is not None and found.start == made


def test_hover_shows_the_line_or_the_meaning():
    assert "let rate = 2;" in language_server.hover(PROGRAM, 2, 26)
    now = PROGRAM.splitlines()[3].index("now")
    assert "instant" in language_server.hover(PROGRAM, 3, now + 1)
    assert language_server.hover(PROGRAM, 4, 18) is None


def message(**content) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **content}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def test_the_server_speaks_the_protocol(tmp_path):
    pytest.importorskip("pygls")
    uri = (tmp_path / "p.sq").as_uri()
    document = {"uri": uri, "languageId": "serq", "version": 1, "text": PROGRAM}
    position = {"textDocument": {"uri": uri}, "position": {"line": 2, "character": 27}}
    sent = b"".join([
        message(id=1, method="initialize", params={"processId": None, "rootUri": None, "capabilities": {}}),
        message(method="initialized", params={}),
        message(method="textDocument/didOpen", params={"textDocument": document}),
        message(id=2, method="textDocument/definition", params=position),
        message(id=3, method="shutdown"),
        message(method="exit"),
    ])  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "serq", "lsp"], input=sent, capture_output=True, timeout=60, check=False
    )
    bodies = [json.loads(part[part.index(b"{") :]) for part in done.stdout.split(b"Content-Length")[1:]]
    (published,) = [b for b in bodies if b.get("method") == "textDocument/publishDiagnostics"]
    (shown,) = published["params"]["diagnostics"]
    assert shown["range"]["start"] == {"line": 3, "character": PROGRAM.splitlines()[3].index("oops")}
    (answer,) = [b for b in bodies if b.get("id") == 2]
    assert answer["result"]["range"]["start"] == {"line": 0, "character": 4}
