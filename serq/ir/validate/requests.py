"""The statement `request`: where it may be sent, what it may read, what it may continue."""

from __future__ import annotations

from math import isnan

from serq.ir.fold import constant
from serq.ir.moments import Moment
from serq.ir.nodes import Expr, Request, Vllm
from serq.ir.printer import number, reference
from serq.ir.validate.expressions import Expressions
from serq.ir.validate.handles import unknown_handle
from serq.ir.validate.index import Index
from serq.ir.validate.problem import Findings


class Requests:
    """Checks one request after another."""

    def __init__(self, index: Index, findings: Findings, expressions: Expressions) -> None:
        self._index = index
        self._findings = findings
        self._expressions = expressions

    def check(self, node: Request) -> None:
        """One request: its engine, its lengths, its clauses."""
        self._expressions.reference(node.stage, Moment.STATEMENT)
        stage = self._index.stages.get(node.stage.name)
        if stage is not None and not isinstance(stage.kind, Vllm):
            message = f"`{stage.name}` is no vllm stage and takes no requests"
            help_ = f"work is sent there with `run {reference(node.stage)} (…);`"
            self._findings.error("E434", message, node.stage, help=help_)
        self._lengths(node)
        self._clauses(node)
        self._identity(node)
        if node.fetched is not None and stage is not None and isinstance(stage.kind, Vllm):
            self._fetched(node, stage.name, stage.kind)

    def _lengths(self, node: Request) -> None:
        check = self._expressions.check
        check(node.prompt_tokens, Moment.PROMPT)
        check(node.output_tokens, Moment.STATEMENT)
        for value in node.accept:
            check(value, Moment.STATEMENT)
        check(node.abort_after, Moment.STATEMENT)
        continues = node.follows is not None
        self._whole(node.prompt_tokens, "the prompt of a request", 0 if continues else 1)
        self._whole(node.output_tokens, "the output of a request", 1)
        patience = None if node.abort_after is None else constant(node.abort_after)
        if patience is not None and not patience >= 0:
            message = f"`abort after` must not be negative or NaN, and this is {number(patience)}"
            self._findings.error("E412", message, node, "abort_after")

    def _clauses(self, node: Request) -> None:
        read = (node.label, node.priority, node.max_tokens, node.min_tokens, node.job, node.immediate)
        for value in (*read, node.skip_reading_prefix_cache):
            self._expressions.check(value, Moment.TERMS)
        self._whole(node.priority, "`priority`", None)
        self._whole(node.max_tokens, "`max_tokens`", 1)
        self._whole(node.min_tokens, "`min_tokens`", 0)
        if node.prefix is not None:
            self._expressions.check(node.prefix.text, Moment.TERMS)
            self._expressions.check(node.prefix.tokens, Moment.TERMS)
            self._whole(node.prefix.tokens, "the length of a prefix", 0)

    def _whole(self, node: Expr | None, what: str, lowest: int | None) -> None:
        """A constant that counts tokens is whole; others are looked at when they have a value."""
        value = None if node is None else constant(node)
        if node is None or value is None:
            return
        if isnan(value) or (lowest is not None and value < lowest) or value % 1:
            least = "" if lowest is None else f" from {lowest}"
            message = f"{what} is a whole number{least}, not {number(value)}"
            self._findings.error("E412", message, node)

    def _identity(self, node: Request) -> None:
        """Whose tokens the prompt has."""
        earlier = [node.follows] if node.follows is not None else []
        earlier += [node.fetched.handle] if node.fetched is not None else []
        for handle in earlier:
            if handle not in self._index.handles:
                part = "follows" if handle == node.follows else "fetched"
                help_ = unknown_handle(handle, self._index)
                message = f"no statement sends a request `{handle}`"
                self._findings.error("E435", message, node, part, help=help_, whole=True)
        clauses = {"follows": node.follows, "prefix": node.prefix, "traced": node.traced or None}
        also = [name for name, value in clauses.items() if value is not None]
        if node.fetched is not None and also:
            message = f"`from` says all of the prompt: `{also[0]}` cannot stand beside it"
            self._findings.error("E436", message, node, also[0])
        elif node.traced and node.prefix is not None:
            message = "`traced` says which tokens the prompt has: `prefix` cannot stand beside it"
            self._findings.error("E436", message, node, "prefix")

    def _fetched(self, node: Request, name: str, engine: Vllm) -> None:
        """`from g via c`: both engines stand at the connector."""
        assert node.fetched is not None
        connector = node.fetched.connector
        if connector not in self._index.connectors:
            message = f"unknown connector `{connector}`"
            self._findings.error("E401", message, node, "fetched", whole=True)
            return
        senders = (r for r in self._index.requests if r.handle == node.fetched.handle)
        sides = [(name, engine, "kv_producer", "fetch")]
        for sender in senders:
            stage = self._index.stages.get(sender.stage.name)
            if stage is not None and isinstance(stage.kind, Vllm):
                sides.append((stage.name, stage.kind, "kv_consumer", "send"))
        for stage_name, side, wrong, verb in sides:
            if side.kv_connector != connector:
                message = f"`{stage_name}` is not at connector `{connector}`"
                help_ = f"add `kv_connector {connector};` to the stage"
                self._findings.error("E437", message, node, "fetched", help=help_)
            elif side.kv_role == wrong:
                message = f"`{stage_name}` is a {wrong} and cannot {verb} KV"
                self._findings.error("E437", message, node, "fetched")
