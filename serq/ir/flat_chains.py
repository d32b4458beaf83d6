"""Long chains in IR files: lists of operands and operators, as JSON readers do not go 5,000 objects deep.

A chain that makes an expression more than ``MAX_DEPTH`` deep is written flat, every other one node in node.
``{"node": "chain", "operands": [a, b, c], "operators": ["+", "-"]}`` is `a + b - c`, and
``{"node": "arms", "conditions": [c, d], "values": [a, b, e]}`` is `c ? a : d ? b : e`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from serq.ir.chains import arms, operations
from serq.ir.limits import MAX_DEPTH
from serq.ir.nodes import Binary, BinaryOperator, Conditional, Expr, Node, Program
from serq.ir.walk import children, descendants

_LENGTHS: Final = {"chain": ("operands", "operators"), "arms": ("values", "conditions")}
"""The fields of a flat chain; the first one has one item more."""


def tall_nodes(program: Program) -> set[int]:
    """The identities of the operations and conditionals that are too deep to be written node in node."""
    heights: dict[int, int] = {}
    for node in reversed(list(descendants(program))):
        heights[id(node)] = 1 + max((heights[id(child)] for child in children(node)), default=0)
    chains = (node for node in descendants(program) if isinstance(node, Binary | Conditional))
    return {id(node) for node in chains if heights[id(node)] > MAX_DEPTH}


def fields(node: Node) -> dict[str, Any]:
    """A node as plain data, with the nodes inside it as they are; fields with their defaults are left out."""
    defaults = dict(zip(reversed(node.__struct_fields__), reversed(node.__struct_defaults__), strict=False))
    plain: dict[str, Any] = {"node": node.__struct_config__.tag}
    for name in node.__struct_fields__:
        value = getattr(node, name)
        if name not in defaults or value is not defaults[name]:
            plain[name] = value
    return plain


def flat_chain(node: Node) -> dict[str, Any]:
    """A chain as plain data, with its operands as they are."""
    if isinstance(node, Conditional):
        choice = arms(node)
        values = [*(arm.then for arm in choice), choice[-1].otherwise]
        return {"node": "arms", "conditions": [arm.condition for arm in choice], "values": values}
    assert isinstance(node, Binary)
    chain = operations(node)
    operands = [chain[0].left, *(operation.right for operation in chain)]
    return {"node": "chain", "operands": operands, "operators": [step.operator for step in chain]}


def link_chains(plain: Any) -> None:
    """Put nodes in the place of flat chains, inner ones first.

    Raises msgspec.ValidationError for what is no chain.
    """
    containers = [plain]
    for container in containers:
        inner = container if isinstance(container, list) else container.values()
        containers += [value for value in inner if isinstance(value, dict | list)]
    for container in reversed(containers):
        for key in range(len(container)) if isinstance(container, list) else list(container):
            value = container[key]
            if isinstance(value, dict) and value.get("node") in tuple(_LENGTHS):
                container[key] = _linked(value)


def _linked(plain: dict[str, Any]) -> Expr:
    longer, shorter = _LENGTHS[plain["node"]]
    if plain.keys() != {"node", longer, shorter}:
        raise msgspec.ValidationError(f"a node `{plain['node']}` has the fields `{longer}` and `{shorter}`")
    values = msgspec.convert(plain[longer], list[Expr])
    if plain["node"] == "chain":
        operators = msgspec.convert(plain[shorter], list[BinaryOperator])
        _check_lengths(plain, len(values), len(operators))
        result = values[0]
        for operator, right in zip(operators, values[1:], strict=True):
            result = Binary(operator, result, right)
        return result
    conditions = msgspec.convert(plain[shorter], list[Expr])
    _check_lengths(plain, len(values), len(conditions))
    result = values[-1]
    for condition, then in zip(reversed(conditions), reversed(values[:-1]), strict=True):
        result = Conditional(condition, then, result)
    return result


def _check_lengths(plain: dict[str, Any], longer: int, shorter: int) -> None:
    if longer != shorter + 1:
        names = _LENGTHS[plain["node"]]
        raise msgspec.ValidationError(f"`{names[0]}` must have one item more than `{names[1]}`")
