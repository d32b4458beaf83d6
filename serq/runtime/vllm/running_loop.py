"""The first half of a step: every running request gets its share, and somebody gives way (S-020 to S-048)."""

from __future__ import annotations

from serq.runtime.vllm.request import Request
from serq.runtime.vllm.scheduler_base import FormingStep, SchedulerBase


class RunningLoop(SchedulerBase):
    """The walk over ``running``."""

    skips_at_max_model_len = False
    """Whether a running request with ``max_model_len`` computed tokens is passed over (V-042)."""

    def schedule_running(self, step: FormingStep) -> None:
        """Give shares in order of admission, until the budget is spent or a request gave way itself."""
        while step.index < len(self.running) and step.token_budget > 0:
            request = self.running[step.index]
            num_tokens = 0 if self._passes_over(step, request) else self._running_share(step, request)
            if num_tokens > 0:
                if not self._make_room(step, request, num_tokens):
                    return
                step.prefill_scheduled |= request.is_prefill_chunk
                self.take_share(step, request, num_tokens, "running", self._take_drafts(request, num_tokens))
            step.index += 1

    def _passes_over(self, step: FormingStep, request: Request) -> bool:
        """Whether ``request`` is left out: its end is in flight (S-021), or prefills are deferred (S-023)."""
        placeholders = request.num_output_placeholders
        if placeholders > 0:
            certain = request.num_computed_tokens + 2 - placeholders
            if certain >= request.num_prompt_tokens + request.stop_rule.max_tokens:
                return True
        if self.skips_at_max_model_len and request.num_computed_tokens >= self.config.max_model_len:
            return True
        return step.defer_prefills and request.is_prefill_chunk

    def _running_share(self, step: FormingStep, request: Request) -> int:
        """How many tokens ``request`` would get (S-024)."""
        computed = request.num_computed_tokens
        wanted = request.num_tokens + request.num_spec_tokens + request.num_output_placeholders - computed
        share = min(
            self.cap_share(step, request, wanted),
            step.token_budget,
            self.config.max_model_len - computed - 1,
        )
        return self.align_share(request, computed, share) if self._aligns_mamba else share

    def _make_room(self, step: FormingStep, request: Request, num_tokens: int) -> bool:
        """Allocate, at others' cost if need be; False if ``request`` itself had to go (S-026, S-027)."""
        while not self.kv_cache_manager.allocate_slots(
            request, num_tokens, num_lookahead_tokens=self._num_lookahead_tokens
        ):
            if self.on_shortage(step, request) is request:
                return False
        return True

    def _take_drafts(self, request: Request, num_tokens: int) -> int:
        """How many attached drafts the share covers; the others are dropped (S-029)."""
        if not request.num_spec_tokens:
            return 0
        known = request.num_tokens + request.num_output_placeholders
        covered = max(0, num_tokens + request.num_computed_tokens - known)
        drafts = min(covered, request.num_spec_tokens)
        request.num_spec_tokens = 0
        return drafts

    # ---- giving way ---------------------------------------------------------

    def on_shortage(self, step: FormingStep, request: Request) -> Request:
        """Hook: blocks lack for ``request``; make one running request go and name it (S-026)."""
        victim = self.pick_victim(request)
        self.withdraw(step, victim)
        self.preempt_request(victim, drop_stale_output=self.requires_kv_delivery, needed_by=request)
        step.preempted.append(victim)
        return victim

    def pick_victim(self, request: Request) -> Request:
        """Hook: who gives way to ``request``: the last to come, or the least urgent (S-040, S-041)."""
        if self.config.policy == "fcfs":
            return self.running[-1]
        return max(self.running, key=lambda other: (other.priority, other.arrival_time))

    def withdraw(self, step: FormingStep, victim: Request) -> None:
        """Take ``victim`` out of ``running`` and its share out of the step (S-042).

        The index follows the list only if the victim had a share: one that stood before the index without
        a share shifts the list under the loop, and a request is passed over. So it is upstream.
        """
        if victim is self.running[-1]:
            self.running.pop()
        else:
            self.running.remove(victim)
        share = step.scheduled.pop(victim.request_id, None)
        if share is not None:
            step.token_budget += share.num_tokens
            step.index -= 1
