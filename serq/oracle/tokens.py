"""Which tokens the requests of a scenario consist of: a function of position (oracle README, "Scenario")."""

from __future__ import annotations

from collections.abc import Sequence

from serq.errors import DataError
from serq.oracle.scenario import RequestLine
from serq.runtime.vllm.tokens import OutputScript, Piece, TokenSequence

_END_TOKENS = {"eos": "eos", "token": "stop"}


class ScenarioTokens:
    """Prompts and outputs as runs. Equal exactly where group, request and position are."""

    def __init__(self, lines: Sequence[RequestLine]) -> None:
        self._lines = {line.id: line for line in lines}
        self._index = {line.id: index for index, line in enumerate(lines)}
        self._prompts: dict[str, TokenSequence] = {}

    def prompt(self, request_id: str) -> tuple[Piece, ...]:
        """The prompt of a request. Raises DataError if requests continue each other in a circle."""
        chain: dict[str, None] = {}
        link: str | None = request_id
        while link is not None and link not in self._prompts:
            if link in chain:
                raise DataError(f"request {request_id!r} continues itself")
            chain[link] = None
            continues = self._lines[link].continues
            link = None if continues is None else continues.id
        for link in reversed(chain):
            self._prompts[link] = self._build(self._lines[link])
        return self._prompts[request_id].runs

    def output(self, request_id: str) -> OutputScript:
        """What the model says to a request."""
        source = f"output {self._index[request_id]}"
        stop = self._lines[request_id].stop
        if stop is None:
            return OutputScript(source)
        if stop.kind == "repeat":
            return OutputScript(source, repeat_at=stop.at)
        return OutputScript(source, end_at=stop.at, end_token=_END_TOKENS[stop.kind])

    def _build(self, line: RequestLine) -> TokenSequence:
        """Quoted tokens, then those shared with the prefix group, then the request's own."""
        tokens = TokenSequence()
        if line.continues is not None:
            self._quote(tokens, line.continues.id, min(line.continues.len, line.prompt))
        if line.prefix_group is not None:
            shared = min(line.prefix_len, line.prompt) - tokens.length
            tokens.append(f"group {line.prefix_group}", tokens.length, shared)
        tokens.append(f"prompt {self._index[line.id]}", tokens.length, line.prompt - tokens.length)
        return tokens

    def _quote(self, tokens: TokenSequence, request_id: str, length: int) -> None:
        """Append the first ``length`` tokens of another request's prompt and output."""
        for piece in self._prompts[request_id].prefix(length):
            tokens.append(*piece)
        self.output(request_id).append_to(tokens, 0, length - tokens.length)
