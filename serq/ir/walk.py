"""Ways through the nodes of a program."""

from __future__ import annotations

from collections.abc import Iterator

from serq.ir.expressions import equal
from serq.ir.nodes import AnyStatement, Block, Branch, Draw, Hold, Loop, Node


def children(node: Node) -> Iterator[Node]:
    """The nodes directly inside a node, in the order of its fields."""
    for name in node.__struct_fields__:
        value = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, Node))


def descendants(node: Node) -> Iterator[Node]:
    """A node and all nodes inside it, outer ones first, in the order of the program."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(list(children(current))))


def statements(block: Block) -> Iterator[AnyStatement]:
    """The statements of ``block``, at any depth, in the order of the program."""
    for statement in block:
        yield statement
        match statement:
            case Branch(then=then, otherwise=otherwise):
                yield from statements((*then, *otherwise))
            case Hold(body=body) | Loop(body=body):
                yield from statements(body)


def draws(node: Node) -> bool:
    """Whether a node draws anywhere inside."""
    return any(isinstance(inner, Draw) for inner in descendants(node))


def alike(left: object, right: object) -> bool:
    """Whether two nodes are written the same way; where their draws stand does not matter."""
    return equal(left, right, but="site")
