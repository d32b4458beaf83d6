"""Steps of an open run that give one prompt all that decodes leave, one after the other (S-024)."""

from __future__ import annotations

from serq.runtime.open_run.forming import Forming
from serq.runtime.open_run.leaving import ClockReason, LeaveOpenRun
from serq.runtime.open_run.notes import NOBODY, Step
from serq.runtime.open_run.request import OpenRequest


class PromptAhead(Forming):
    """A prompt that takes many steps, which leave no tokens to admit anybody."""

    def prompt_ahead(self, now: float, until: float) -> bool:
        """The only prompt that was begun goes on from ``now``, as far as steps do not complete it.

        All these steps but the last have ended, before ``until``. Whether any was formed: not where others
        may get tokens too, blocks lack, or somebody ends.
        """
        request, tokens = self.partial[0], self.budget - self.count
        if (
            self.depth > 1
            or len(self.partial) > 1
            or not 0 < tokens <= self.threshold
            or request.admission < self._last_joined
            or self.price.executor is not None
        ):
            return False
        limit = min(self.next_end, self.formed + (request.num_tokens - request.computed - 1) // tokens)
        step = None
        while self.formed < limit and now < until:
            following = self._next_share(request, tokens, now)
            if following is None:
                break
            if step is not None:
                self.rows.append(step)
                self.processed += 1
                self.last_end = now
            step, now = following, following[0]
        if step is None:
            return False
        self.device_free_at = now
        self.flight.append(step)
        return True

    def _next_share(self, request: OpenRequest, tokens: int, now: float) -> Step | None:
        """The next step, formed at ``now``, with ``tokens`` for ``request``; None if blocks lack."""
        number = self.formed
        need = self.full_at[-number % self.size]
        held = -(-(request.computed + tokens) // self.size)
        blocks = need + held - request.held
        if blocks > self.free:
            return None
        self.account(now)
        self.free -= blocks
        self.held += need
        self.formed = number + 1
        self.begin_step(number)
        self._share(request, tokens, held)
        if self.cached is not None:
            self.cached.take(blocks)
            self.cached.publish(request)
        end = now + self._step_price(number, self.budget, now)
        if not end > now:
            raise LeaveOpenRun(ClockReason.NO_TIME)
        return (
            end, now, now, self.budget, self._shares, tokens, len(self.running), len(self.waiting),
            self.free, 0, NOBODY,
        )  # fmt: skip
