"""Programs as nobody should write them: random ones, and any program with its layout undone."""

from __future__ import annotations

import re
from random import Random

from hypothesis import strategies as st

from serq.grammar.names import LANGUAGE_WORDS

Tokens = list[str]

WORD = re.compile(
    r"//[^\n]*|/\*(?s:.*?)\*/"
    r'|"[^"\n]*"'
    r"|(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?"
    r"|\w+|<=|>=|==|!=|&&|\|\||\S"
)
"""A comment, string, number, name or sign, as R-A-001 to R-A-003 state them."""


def is_comment(word: str) -> bool:
    return word.startswith(("//", "/*"))


def tokens_of(text: str) -> Tokens:
    return [word for word in WORD.findall(text) if not is_comment(word)]


def comments_of(text: str) -> list[list[str]]:
    """The lines of every comment; how far they are indented is layout."""
    return [[line.strip() for line in word.split("\n")] for word in WORD.findall(text) if is_comment(word)]


# --- layout undone ------------------------------------------------------------------------------------------

_WHITE = (" ", "", "\n", "\n\n\n", "\t", "\r\n", "  \t")
_COMMENTS = ("// c{}\n", "//c{}  \r\n", "/*b{}*/", "/* b{} */", "/* m{}\n     more\n\n\tx */", "/**//* {} */")


def sprinkle(tokens: Tokens, random: Random) -> str:
    """The tokens with white space and comments between them, before and behind them."""
    share = random.choice((0.0, 0.02, 0.1, 0.4))
    text = ""
    for token in tokens:
        text += _gap(random, share) + token
    return text + _gap(random, share) + random.choice(("", "// at the end", "/* at the end */"))


def _gap(random: Random, share: float) -> str:
    if random.random() >= share:
        return random.choice((" ", " ", " ", "\n", "\r\n\t"))
    pieces = [" "]  # `/` and a comment behind it would begin a comment
    for _ in range(random.randint(1, 3)):
        pieces += [random.choice(_WHITE), random.choice(_COMMENTS).format(random.randint(0, 99))]
    return "".join([*pieces, random.choice(_WHITE)])


def lengthened(tokens: Tokens, random: Random) -> Tokens:
    """The same program with long names, so that its lines must break."""
    longer: dict[str, str] = {}
    for token in tokens:
        if token.isidentifier() and token not in LANGUAGE_WORDS:
            longer.setdefault(token, token + "_" * random.randint(0, 30))
    return [longer.get(token, token) for token in tokens]


# --- random programs ----------------------------------------------------------------------------------------

_names = st.sampled_from(("kv", "p", "e5", "_x", "größe", "名", "waited", "cost", "run", "step", "lru"))
_numbers = st.sampled_from(("0", "1", "2.", ".5", "1_000", "1e3", "7E-3", "1_.5"))


def _joined(*parts: str | st.SearchStrategy[Tokens]) -> st.SearchStrategy[Tokens]:
    """One after the other; a string stands for its words."""
    made = [st.just(part.split()) if isinstance(part, str) else part for part in parts]
    return st.tuples(*made).map(lambda lists: [token for tokens in lists for token in tokens])


def _listed(item: st.SearchStrategy[Tokens], most: int = 3) -> st.SearchStrategy[Tokens]:
    """Items with commas between them."""
    return st.lists(item, min_size=1, max_size=most).map(
        lambda items: [token for index, item in enumerate(items) for token in ([","] if index else []) + item]
    )


def _many(item: st.SearchStrategy[Tokens], most: int = 3) -> st.SearchStrategy[Tokens]:
    return st.lists(item, max_size=most).map(lambda items: [token for tokens in items for token in tokens])


def _maybe(*parts: str | st.SearchStrategy[Tokens]) -> st.SearchStrategy[Tokens]:
    return st.just([]) | _joined(*parts)


_name = _names.map(lambda name: [name])


def _compound(inner: st.SearchStrategy[Tokens]) -> st.SearchStrategy[Tokens]:
    binary = st.sampled_from(("+", "-", "*", "/", "^", "&&", "||")).map(lambda sign: [sign])
    compare = st.sampled_from(("<", "<=", ">", ">=", "==", "!=")).map(lambda sign: [sign])
    return st.one_of(
        _joined(inner, binary, inner),
        _joined("(", inner, compare, inner, ")"),
        _joined("-", inner),
        _joined("!", inner),
        _joined("(", inner, "?", inner, ":", inner, ")"),
        _joined(inner, "?", inner, ":", inner),
        _joined(_name, "(", _listed(inner | _joined(_name, "[", inner, "]")), ")"),
        _joined("~ uniform (", inner, ",", inner, ")"),
        _joined("max j in n (", inner, ")"),
    )


_expr = st.recursive(_name | _numbers.map(lambda number: [number]), _compound, max_leaves=12)
_exprs = _listed(_expr)
_ref = _name | _joined(_name, "[", _expr, "]")
_growing = _maybe("growing", _ref)


def _statements(inner: st.SearchStrategy[Tokens]) -> st.SearchStrategy[Tokens]:
    block = _joined("{", _many(inner), "}")
    unit = _joined(_ref, "(", _expr, ")", _maybe("reserve (", _expr, ")"))
    binding = _joined(_name, "=", _expr)
    header = _joined(_maybe("reuse (", _expr, ")"), _maybe("at admission (", _listed(binding), ")"))
    footer = _joined(_maybe("cache (", _expr, ")"), _maybe("lease", _ref, "(", _expr, ")"), _maybe(";"))
    return st.one_of(
        _joined("hold", _listed(unit), header, block, footer),
        _joined("branch (", _expr, ")", block, _maybe("else", block)),
        _joined("branch with (", _expr, ")", block),
        _joined("loop", block),
    )


_simple = st.one_of(
    _joined("turn ;"),
    _joined("end ;"),
    _joined("set", _name, "=", _expr, ";"),
    _joined("observe", _name, "=", _expr, ";"),
    _joined("grow", _ref, "(", _expr, ") ;"),
    _joined("drop", _ref, ";"),
    _joined("run", _ref, "(", _expr, ")", _growing, ";"),
    _joined("run", _ref, "prefill (", _expr, ")", _growing, ";"),
    _joined("run", _ref, ",", _listed(_ref), "(", _expr, ") ;"),
    _joined("choose", _name, "in", _expr, "by (", _exprs, ") ;"),
    _joined("decode [", _expr, "] (", _expr, ")", _growing, ";"),
    _joined("transfer on", _ref, "(", _expr, ") from", _ref, "to", _ref, "(", _expr, ") ;"),
    _joined("splice (", _exprs, ") ;"),
)
_statement = st.recursive(_simple, lambda inner: _simple | _statements(inner), max_leaves=6)
_block = _joined("{", _many(_statement, 4), "}")

_pool_option = st.one_of(
    _joined("cap", _expr, ";"),
    _joined("queue by (", _exprs, ") ;"),
    _joined("admit via", _name, ";"),
    _joined("spill", _name, "via", _name, "(", _expr, ") when (", _expr, ") ;"),
)
_step_option = st.one_of(
    _joined("cost", _expr, ";"), _joined("serve decode first ;"), _joined("serve by (", _exprs, ") ;")
)
_workload_item = st.one_of(
    _joined("arrive poisson (", _expr, ") ;"),
    _joined("arrive trace ;"),
    _joined('trace "a//b/*.csv" ordered ;'),
    _joined("init", _block),
    _joined("turn", _block),
    _joined("hidden", _listed(_name, 6), ";"),
    _joined("session", _block),
)
_item = st.one_of(
    _joined("let", _name, "=", _expr, ";"),
    _joined("def f ( a , b ) =", _expr, ";"),
    _joined("def g ( )", _block),
    _joined("use", '"b.sq" ;'),
    _joined("pool", _name, _maybe("[ 2 ]"), "{", _many(_pool_option), "}"),
    _joined("stage", _name, ": fifo ( 2 ) ;"),
    _joined("stage", _name, "[ 3 ] : delay ;"),
    _joined("stage", _name, ": step {", _many(_step_option), "}", _maybe(";")),
    _joined("workload {", _many(_workload_item), "}"),
    _joined("session", _block),
    _joined("share maxmin ;"),
    _joined("run { horizon", _expr, "; seed 3 ; }"),
)
programs: st.SearchStrategy[Tokens] = _many(_item, 5)
"""Tokens that the grammar accepts; names need not mean anything."""
