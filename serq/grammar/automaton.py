"""The LALR(1) automaton: reads token after token, by tables that were made from ``serq.lark``."""

from __future__ import annotations

from serq.grammar.tables import Rule, Tables
from serq.grammar.tree import Token, Tree

Value = Tree | Token


class Automaton:
    """Where reading a text stands: the states on the way here, and what was read between them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._states = [tables.start]
        self._values: list[Value] = []

    @property
    def tree(self) -> Tree:
        """What was read, once the end was."""
        (tree,) = self._values
        assert isinstance(tree, Tree)
        return tree

    def read(self, token: Token) -> bool:
        """Take the next token, or the end; False, and nothing was taken, where it may not stand here."""
        rows, states = self._tables.states, self._states
        while states[-1] != self._tables.end:
            action = rows[states[-1]].get(token.type)
            if action is None:
                return False
            if action >= 0:
                states.append(action)
                self._values.append(token)
                return True
            self._reduce(self._tables.rules[~action])
        return True

    def _reduce(self, rule: Rule) -> None:
        """Put what ``rule`` stands for in the place of what it was read from."""
        kept = len(self._values) - rule.size
        value = _value(rule, self._values[kept:])
        del self._values[kept:], self._states[kept + 1 :]
        self._values.append(value)
        self._states.append(self._tables.states[self._states[-1]][rule.origin])

    def would_read(self, terminal: str) -> bool:
        """Whether a token of this kind may stand here."""
        states = list(self._states)
        while True:
            action = self._tables.states[states[-1]].get(terminal)
            if action is None:
                return False
            if action >= 0:
                return True
            rule = self._tables.rules[~action]
            del states[len(states) - rule.size :]
            states.append(self._tables.states[states[-1]][rule.origin])

    def accepted(self) -> set[str]:
        """The kinds of tokens that may stand here."""
        known = self._tables.states[self._states[-1]]
        return {name for name in known if name.isupper() and self.would_read(name)}

    def give_up(self) -> Value:
        """Forget the last thing that was read; it."""
        self._states.pop()
        return self._values.pop()


def _value(rule: Rule, read: list[Value]) -> Value:
    """The node of a rule, or the only child that it has where that stands for it."""
    children: list[Tree | Token | None] = []
    for place, opened, missing in rule.taken:
        children += [None] * missing
        child = read[place]
        if not opened:
            children.append(child)
            continue
        assert isinstance(child, Tree)
        if children:
            children += child.children
        else:  # of a long list, which grows by one at a time
            children = child.children
    children += [None] * rule.missing
    if rule.unwraps and len(children) == 1:
        (only,) = children
        assert only is not None
        node: Value = only
    else:
        node = Tree(rule.name, children)
    if isinstance(node, Tree):
        extents = [extent for extent in map(_extent, read) if extent is not None]
        if extents:
            node.stretch(extents[0][0], extents[-1][1])
    return node


def _extent(value: Value) -> tuple[int, int] | None:
    """From where to where a value stands, with what stands around it; None: it was read from nothing."""
    if isinstance(value, Token):
        return value.start_pos, value.end_pos
    if value.outer_start is None or value.outer_end is None:
        return None
    return value.outer_start, value.outer_end
