"""Random expressions of the IR."""

from __future__ import annotations

from hypothesis import strategies as st

from serq.ir.nodes import (
    Aggregate,
    Attribute,
    Binary,
    Call,
    Conditional,
    Expr,
    Local,
    Number,
    PoolRead,
    PoolRef,
    StageRead,
    StageRef,
    Unary,
    Variable,
)

BINARY = ("+", "-", "*", "/", "^", "<", "<=", ">", ">=", "==", "!=", "&&", "||")
DECLARATIONS = "pool kv[3] { } pool slots { } stage gpu : step { cost 1; } stage link[2] : fifo;"


def numbers() -> st.SearchStrategy[Number]:
    finite = st.floats(min_value=0, allow_nan=False, allow_infinity=True).map(abs)
    return st.builds(Number, st.one_of(st.integers(0, 9).map(float), finite))


def leaves(bound: tuple[str, ...]) -> st.SearchStrategy[Expr]:
    names = st.sampled_from(["serial", "cached", "a", "b"])
    reads = [
        st.just(Variable("now")),
        st.builds(Attribute, names),
        numbers(),
        st.just(PoolRead("used", PoolRef("slots"))),
        st.just(StageRead("busy", StageRef("gpu"))),
    ]
    if bound:
        reads.append(st.builds(Local, st.sampled_from(bound)))
    return st.one_of(reads)


def expressions(depth: int = 4, bound: tuple[str, ...] = ()) -> st.SearchStrategy[Expr]:
    """Expressions with every kind of node but draws, whose sites depend on what is around them."""
    if depth == 0:
        return leaves(bound)
    inner = st.deferred(lambda: expressions(depth - 1, bound))
    name = f"i{len(bound)}"
    return st.one_of(
        leaves(bound),
        st.builds(Unary, st.sampled_from(["-", "!"]), inner),
        st.builds(Binary, st.sampled_from(BINARY), inner, inner),
        st.builds(Conditional, inner, inner, inner),
        st.builds(lambda a, b: Call("max", (a, b)), inner, inner),
        st.builds(lambda a: Call("floor", (a,)), inner),
        st.builds(lambda a: PoolRead("free", PoolRef("kv", Binary("&&", Number(0.0), a))), leaves(bound)),
        st.builds(
            lambda count, body: Aggregate("sum", name, count, body),
            st.sampled_from([Number(2.0), Attribute("a"), Binary("+", Attribute("a"), Number(1.0))]),
            st.deferred(lambda: expressions(depth - 1, (*bound, name))),
        ),
    )
