"""An engine that goes from step end to step end until somebody comes (S-001 to S-103).

It decides as the scheduler of a `vllm` stage decides, which is proven against recorded traces; this one is
held against it.
"""

from __future__ import annotations

from math import inf, nan, nextafter
from operator import attrgetter
from typing import Final

from serq.runtime.open_run.leaving import ClockReason, LeaveOpenRun
from serq.runtime.open_run.notes import NOBODY, Step
from serq.runtime.open_run.prompt_ahead import PromptAhead
from serq.runtime.open_run.request import OpenRequest

_ADMISSION: Final = attrgetter("admission")
_ROW: Final = attrgetter("row")


class OpenEngine(PromptAhead):
    """One engine, between two arrivals."""

    # --- from outside -----------------------------------------------------------------------------------

    def run(self, until: float) -> None:
        """Let everything happen that comes before ``until``; nobody comes after that, but for those who take
        the place of others.
        """
        if self.has_reached:
            return  # somebody looks at it at this instant
        self.until = until
        if self.ordered:
            before = self.clock.now
            self._run()
            self.clock.now = max(before, self.clock.now)
        else:
            self._run()
        if self.coming:
            self._come(until)

    def next_time(self) -> float:
        """When something happens next, if nobody comes."""
        if self.flight:
            return self.flight[0][0]
        arrived = self.inbox or self.coming
        return arrived[0].sent_time if arrived else inf

    def _run(self) -> None:
        flight, coming, inbox = self.flight, self.coming, self.inbox
        while True:
            if flight:
                now = flight[0][0]
            elif inbox or coming:
                now = (inbox or coming)[0].sent_time
            else:
                return
            if now >= self.until:
                return
            self.reach(now)
            self.react(now)

    def reach(self, now: float) -> None:
        """A step ends ``now``, or somebody comes to an idle engine."""
        self.has_reached = True
        coming = self.coming
        if coming:
            self._come(now)
        if not self.flight:
            self.since = now
            return
        self.end_step(now)
        if self.done and self.go_on is not None:
            self.go_on(self, now)

    def react(self, now: float) -> None:
        """Take in who has come, and form the steps that follow; where they go on alike, all of them."""
        self.has_reached = False
        coming, until = self.coming, self.until
        if coming:
            self._come(now)
            if coming:
                until = min(until, coming[0].sent_time)
        if self.ordered:
            self.clock.now = now
        if self.inbox:
            self.take_in(now)
        if self.partial:
            if self.prompt_ahead(now, until):
                return
        elif not self.flight and self._admits_nobody() and self.decode_ahead(now, until):
            return
        self.fill(now)
        if self.is_steady:
            self.decode_ahead(now, until)

    def _come(self, now: float) -> None:
        """Who arrives up to ``now`` has come: these are taken in when a step ends."""
        coming, come = self.coming, []
        while coming and coming[0].sent_time <= now:
            come.append(coming.popleft())
        if come:
            self.figures.come(come)
            self.inbox += come

    def _admits_nobody(self) -> bool:
        """Whether the next step is one of decodes alone, in an engine that forms one when another ends."""
        if self.depth > 1 or not self.count:
            return False
        return not self.waiting or len(self.running) >= self.max_num_seqs

    def ends_at(self, now: float) -> bool:
        """Whether a step ends at ``now``, before which everything has happened."""
        return bool(self.flight) and self.flight[0][0] == now

    # --- steps ------------------------------------------------------------------------------------------

    def fill(self, now: float) -> None:
        """Form steps until as many are in flight as may be (S-103)."""
        flight = self.flight
        self.is_steady = False
        while len(flight) < self.depth:
            while flight and not flight[0][3] and flight[0][0] <= now:
                self.preemptions += flight.popleft()[9]  # a step without tokens is done at once
            if not (self.running or self.waiting):
                return
            self.form(now)

    def end_step(self, now: float) -> None:
        """The oldest step in flight ends: its tokens come, and who has all of them is done (S-096)."""
        step = self.flight.popleft()
        self.block_time += (self.usable - self.free) * (now - self.since)
        self.since = self.last_end = now
        if not step[3]:
            self.preemptions += step[9]
            return
        number = self.processed
        self.processed = number + 1
        self.rows.append(step)
        for request in step[10]:
            if request.first_step < 0:
                request.first_time, request.first_step = now, number
            if request.num_preemptions and request.joined == number:
                self.queue.over(request.row, now)
        if number == self.next_end or self.stale:
            self._end(number, step[2], now)

    def _end(self, number: int, start: float, now: float) -> None:
        """Requests have got their last token, with step ``number``, which was awaited from ``start`` on."""
        ending = self.pop_ending(number) if number == self.next_end else []
        if self.stale:
            ending += self._take_stale(number, now)
        if not ending:
            return
        if len(ending) > 1:
            ending.sort(key=_ADMISSION)
        done, rank = self.done, self.stage.rank
        self.figures.go(now, ending)
        for request in ending:
            if request.joined >= 0:
                known = request.offset + number + 1
                del self.running[request]
                self.release(request, known + request.overruns, known)
            else:
                self._leave_queue(request, now)
            request.num_output_tokens = request.outputs
            request.last_time = request.end_time = now
            request.last_step = number
            request.reason = "stop" if request.stops else "length"
            done.append((now, start, rank, request))

    def _take_stale(self, number: int, now: float) -> list[OpenRequest]:
        """Who gave way while step ``number`` was in flight gets its token (S-104); those whose last it is."""
        ending = []
        for request in self.stale:
            request.num_output_tokens += 1
            request.num_tokens += 1
            request.last_time, request.last_step = now, number
            if request.num_output_tokens == request.outputs:
                ending.append(request)
        self.stale = []
        return ending

    def _leave_queue(self, request: OpenRequest, now: float) -> None:
        """``request`` has ended while it waited."""
        self.waiting.remove(request)
        since, preemptions = request.waits_since, request.num_preemptions
        self.stays.append((request.row, request.lane, since, now, "ended", -1, preemptions))
        self.queue.over(request.row, now)

    def decode_ahead(self, now: float, until: float) -> bool:
        """Steps of the same decodes follow each other, until somebody ends, comes, or finds no block.

        The steps in flight are such; if there is none, the first is formed now. Whether any was formed.
        """
        needs, size, formed, limit = self.full_at, self.size, self.formed, self.next_end
        count, running, waiting = self.count, len(self.running), len(self.waiting)
        free, held, usable = self.free, self.held, self.usable
        since, block_time = self.since, self.block_time
        steps = list(self.flight)
        known = len(steps)
        if steps:
            now, last, place = steps[0][0], steps[-1][0], 1
        else:
            last, place, until = now, 0, max(until, nextafter(now, inf))
        changes = self.cost_changes
        price = 0.0 if changes else self.decode_price(formed, held, now)
        while formed <= limit and now < until:
            need = needs[-formed % size]
            if need > free:
                break
            if changes:
                price = self.decode_price(formed, held + need, now)
            block_time += (usable - free) * (now - since)
            since = now
            free -= need
            held += need
            end = last + price
            steps.append((end, now, last, count, count, 0, running, waiting, free, 0, NOBODY))
            last = end
            now = steps[place][0]
            place += 1
            formed += 1
        more = len(steps) - known
        if not more:
            return False
        if not last > steps[-1][2]:
            raise LeaveOpenRun(ClockReason.NO_TIME)
        if self.cached is not None and free < self.free:
            self.cached.take(self.free - free)
        self.free, self.held, self.formed = free, held, formed
        self.since = self.last_end = since
        self.block_time = block_time
        self.device_free_at = last
        self._note_steps(steps)
        if formed - 1 == limit:
            self.uncount_ending(formed - 1)
        return True

    def _note_steps(self, steps: list[Step]) -> None:
        """Those of ``steps`` have ended that are not in flight after them."""
        ended = len(steps) - self.depth
        self.rows += steps[:ended]
        self.processed += ended
        self.flight.clear()
        self.flight += steps[ended:]

    # --- the end ----------------------------------------------------------------------------------------

    def close(self, now: float) -> None:
        """The run is over: write down what the engine on the clock would show."""
        self.account(now)
        self.write_ended()
        self.log.settle(now, self.block_time, self.preemptions)
        self.log.first_admitted(self.prompt_tokens, self.cached_tokens)
        self.figures.close(self.stage)
        self.stage.iterations = self.queue.formed = self.stage.planned_steps = self.formed
        for request in self.running:
            self._note_progress(request)
        for request in sorted(self.waiting, key=_ROW):
            since, preemptions = request.waits_since, request.num_preemptions
            self.queue.stays.add(request.row, request.lane, since, nan, "", -1, preemptions)

    def _note_progress(self, request: OpenRequest) -> None:
        """How far a request has come that runs."""
        ended = self.processed - 1
        if request.joined >= 0 and ended >= request.joined:
            request.num_output_tokens = request.before + ended - request.joined + 1
            request.last_time, request.last_step = self.last_end, ended
