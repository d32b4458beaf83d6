"""How the engine of an open run forms a step: decodes, prompts, admissions (S-006, S-020 to S-060)."""

from __future__ import annotations

from math import inf

from serq.kernels.executor import DecodeTotals
from serq.kernels.step_batch import BatchRow, StepBatch
from serq.runtime.open_run.giving_way import GivingWay, OpenParts
from serq.runtime.open_run.leaving import ClockReason, LeaveOpenRun
from serq.runtime.open_run.request import OpenRequest
from serq.runtime.pricing import MeteredExecutor
from serq.runtime.serving.gateway import request_id
from serq.runtime.serving.step_totals import StepTotals


class Forming(GivingWay):
    """The forming of a step."""

    def __init__(self, parts: OpenParts) -> None:
        super().__init__(parts)
        self._blocked = False
        """Whether the first who waits found no blocks."""
        self._shares = self._prefilled = 0
        """Of the step that is formed."""
        self._totals = StepTotals(0, 0, 0)
        self._prices: dict[tuple[int, int], float] = {}
        """Of steps of decodes alone, by (decodes, running), where their cost reads no more."""
        self._priced_by_share = self.price.by_share
        self._written: list[BatchRow] = []
        """The shares of prompts in the step that is formed, where an executor prices it."""
        self._least = self._most = 0
        self._extremes_of = -1
        """The smallest and the largest offset of those counted, of which composition."""

    def take_in(self, now: float) -> None:
        """Those who were sent wait from now on."""
        for request in self.inbox:
            request.queued_time = request.waits_since = now
        self.waiting.extend(self.inbox)
        self.inbox.clear()

    # --- one step ---------------------------------------------------------------------------------------

    def form(self, now: float) -> None:
        """Form the next step at ``now``: decodes, then prompts that go on, then admissions (S-006)."""
        number = self.formed
        told: list[OpenRequest] = []
        victims, budget = self._decode(now, number, told)
        if self.waiting and not victims:
            budget = self._admit(now, number, budget, told)
        tokens = self.budget - budget
        start = max(now, self.device_free_at)
        if not tokens:
            if not self.flight:
                raise LeaveOpenRun(ClockReason.NO_TOKENS)
            self.is_steady = False
            self.flight.append((start, now, start, 0, 0, 0, 0, 0, 0, victims, told))
            return
        if told or self.partial or self._prefilled:
            end = start + self._step_price(number, tokens, now)
        else:
            end = start + self.decode_price(number, self.held, now)
        if not end > start:
            raise LeaveOpenRun(ClockReason.NO_TIME)
        self.device_free_at = end
        self.flight.append(
            (end, now, start, tokens, self._shares, self._prefilled, len(self.running), len(self.waiting),
             self.free, victims, told)
        )  # fmt: skip
        self.formed = number + 1
        if number in self.ending or number in self.overrun:
            self.uncount_ending(number)
        for request in told:
            self.join(request, number)
            self._last_joined = max(self._last_joined, request.admission)
        self._see_whether_steady(told)

    def _see_whether_steady(self, told: list[OpenRequest]) -> None:
        closed = not self.waiting or self._blocked or len(self.running) >= self.max_num_seqs
        self.is_steady = (
            closed and not (told or self.partial) and self.count > 0 and len(self.flight) == self.depth
        )
        if self.is_steady and self.depth > 1:
            before = self.flight[0]
            self.is_steady = before[3] > 0 and not before[10]

    def _decode(self, now: float, number: int, told: list[OpenRequest]) -> tuple[int, int]:
        """Those who run get their shares: (how many gave way, tokens left)."""
        need = self.full_at[-number % self.size]
        victims, goes_on = 0, True
        if need > self.free:
            victims, goes_on = self.take_one_by_one(now, number)
        elif need:
            self.free -= need
            self.held += need
            if self.cached is not None:
                self.cached.take(need)
        self._blocked = False
        self.begin_step(number)
        budget = self.budget - self.count
        if self.partial and goes_on:
            gone, budget = self._go_on(now, number, budget, told)
            victims += gone
        return victims, budget

    def begin_step(self, number: int) -> None:
        """Step ``number`` has the shares of those who decode, and no others so far."""
        self._prefilled, decodes = 0, self.count
        self._shares = decodes
        if self._priced_by_share and (self.partial or self.waiting):
            self._written.clear()
            totals = self._totals
            totals.decoders = float(decodes)
            totals.context_decode = float(self.base + decodes * number)
            totals.kv_decode = float(self.held * self.size)
            totals.context_prefill = totals.attention = totals.kv_prefill = 0.0

    def _share(self, request: OpenRequest, tokens: int, held: int) -> None:
        """Note a share of a prompt for the price of the step."""
        computed = request.computed
        decodes = computed > 0 and request.num_tokens - computed == 1
        self._shares += 1
        if not decodes:
            self._prefilled += tokens
        if self._priced_by_share:
            self._price_share(request, tokens, held, decodes)
        request.held = held
        request.computed = computed + tokens

    def _price_share(self, request: OpenRequest, tokens: int, held: int, decodes: bool) -> None:
        """Note what the price of the step reads of a share."""
        computed, totals = request.computed, self._totals
        if self.price.executor is not None:
            name, prompt = _name(request), request.num_prompt_tokens
            self._written.append(BatchRow(name, tokens, computed, prompt, 0, decodes))
        elif decodes:
            totals.decoders += 1.0
            totals.context_decode += computed
            totals.kv_decode += held * self.size
        else:
            totals.context_prefill += computed
            totals.attention += tokens * (computed + tokens / 2)
            totals.kv_prefill += held * self.size

    # --- prompts ----------------------------------------------------------------------------------------

    def _go_on(self, now: float, number: int, budget: int, told: list[OpenRequest]) -> tuple[int, int]:
        """Prompts that were begun go on: (how many gave way, tokens left) (S-024 to S-027)."""
        partial, size = self.partial, self.size
        if partial[0].admission < self._last_joined:
            wanted = sum(min(request.num_tokens - request.computed, self.threshold) for request in partial)
            if wanted > budget or self.free < wanted // size + len(partial):
                raise LeaveOpenRun(ClockReason.ORDER)
        victims = 0
        for request in tuple(partial):
            if budget <= 0:
                break
            if request not in self.running:
                continue
            tokens = min(request.num_tokens - request.computed, self.threshold, budget)
            held = -(-(request.computed + tokens) // size)
            while held - request.held > self.free:
                victim = next(reversed(self.running))
                self.preempt(victim, request, now, number)
                victims += 1
                if victim is request:
                    return victims, budget
            more = held - request.held
            self.free -= more
            budget -= tokens
            self._share(request, tokens, held)
            if self.cached is not None:
                self.cached.take(more)
                self.cached.publish(request)
            if request.computed == request.num_tokens:
                partial.remove(request)
                told.append(request)
        return victims, budget

    def _admit(self, now: float, number: int, budget: int, told: list[OpenRequest]) -> int:
        """Admit from the head of those who wait, until one does not fit; tokens left (S-050 to S-058)."""
        waiting, running, size, stays = self.waiting, self.running, self.size, self.stays
        caches, threshold, most = self.cached, self.threshold, self.max_num_seqs
        blocks = evictable = cached = 0
        while waiting and budget > 0 and len(running) < most:
            request = waiting[0]
            if caches is not None:
                found, blocks = caches.find(request)
                evictable = caches.evictable(found)
                cached = blocks * size
            known = request.num_tokens
            tokens = known - cached
            if tokens > threshold or tokens > budget:
                tokens = min(tokens, threshold)
                if tokens > budget:
                    if not self.chunks:
                        break
                    tokens = budget
            held = -(-(cached + tokens) // size)
            spare = self.free - evictable - (self.watermark if running else 0) + blocks
            if held > spare or (self.whole_must_fit and -(-known // size) > spare):
                self._blocked = True
                break
            waiting.popleft()
            budget -= tokens
            self._admissions += 1
            request.admission = self._admissions
            running[request] = None
            preemptions = request.num_preemptions
            since, lane = request.waits_since, request.lane
            stays.append((request.row, lane, since, now, "admitted", number, preemptions))
            if preemptions:
                self.queue.resumed(request.row, now)
            request.computed = cached
            self._share(request, tokens, held)
            if caches is None:
                self.free -= held
            else:
                caches.admit(request, found, held - blocks)
                caches.publish(request)
                self.free = caches.pool.num_free_blocks
            (told if request.computed == known else self.partial).append(request)
            if not request.scheduled_time >= 0.0:  # NaN: it never was
                request.scheduled_time, request.cached = now, cached
                self.prompt_tokens += request.num_prompt_tokens
                self.cached_tokens += cached
        return budget

    # --- prices -----------------------------------------------------------------------------------------

    def _step_price(self, number: int, tokens: int, now: float) -> float:
        """What step ``number`` costs, which computes prompts."""
        executor = self.price.executor
        if executor is not None:
            rows = [
                BatchRow(_name(request), 1, request.offset + number, request.num_prompt_tokens, 0, True)
                for request in self._decoding(number)
            ]
            return self._checked(executor.seconds(StepBatch.of((*rows, *self._written))))
        totals = self._totals
        totals.residents = float(len(self.running))
        totals.scheduled = float(self._shares)
        totals.tokens = float(tokens)
        totals.prefilled = float(self._prefilled)
        return self._cost(now)

    def decode_price(self, number: int, held: int, now: float) -> float:
        """What step ``number`` costs, formed at ``now``, which only decodes, in ``held`` blocks."""
        count, residents = self.count, len(self.running)
        context = self.base + count * number
        executor = self.price.executor
        if executor is not None:
            return self._executor_price(executor, number, context)
        if not self.cost_changes:
            price = self._prices.get((count, residents))
            if price is not None:
                return price
        totals = self._totals
        totals.residents = float(residents)
        totals.scheduled = totals.tokens = totals.decoders = float(count)
        totals.prefilled = totals.context_prefill = totals.attention = totals.kv_prefill = 0.0
        totals.context_decode = float(context)
        totals.kv_decode = float(held * self.size)
        price = self._cost(now)
        if not self.cost_changes:
            self._prices[count, residents] = price
        return price

    def _executor_price(self, executor: MeteredExecutor, number: int, context: int) -> float:
        """What the executor charges for a step of decodes alone."""
        if self._extremes_of != self.compositions:
            offsets = [request.offset for request in self._decoding(number)]
            self._least, self._most = min(offsets), max(offsets)
            self._extremes_of = self.compositions
        totals = DecodeTotals(self.count, context, self._least + number, self._most + number)
        price = executor.executor.price_decodes(totals)
        if price is None:
            raise LeaveOpenRun(ClockReason.ENGINE)
        executor.ledger.add(price)
        return self._checked(price.seconds)

    def _decoding(self, number: int) -> list[OpenRequest]:
        """Those with a share of step ``number`` that is counted, in the order of admission."""
        return [r for r in self.running if r.joined >= 0 and r.leaves >= number]

    @property
    def cost_changes(self) -> bool:
        """Whether steps of equally many decodes may cost different amounts."""
        return self.price.changes

    def _cost(self, now: float) -> float:
        """The value of the cost expression over the totals, at ``now``."""
        cost = self.price.cost
        assert cost is not None
        if not self.price.reads_clock:
            return self._checked(cost(self._totals))
        clock = self.clock
        before, clock.now = clock.now, now
        price = cost(self._totals)
        clock.now = before
        return self._checked(price)

    @staticmethod
    def _checked(price: float) -> float:
        if not 0.0 < price < inf:
            raise LeaveOpenRun(ClockReason.NO_TIME)
        return price


def _name(request: OpenRequest) -> str:
    """The id of ``request`` in the rows of a step."""
    return request_id(request.row, request.job)
