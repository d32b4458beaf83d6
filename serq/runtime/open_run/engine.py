"""An engine that goes from step end to step end until somebody comes (S-001 to S-103).

It decides as the scheduler of a `vllm` stage decides, which is proven against recorded traces; this one is held
against it. A request whose prompt is computed is only counted: a step gives every one of them a token, so that
what a step takes is known without looking at any (see ``fast.decode_set``).
"""

from __future__ import annotations

from math import inf, nan
from operator import attrgetter
from typing import Final

from serq.runtime.open_run.forming import Forming
from serq.runtime.open_run.giving_way import Step
from serq.runtime.open_run.leaving import LeaveOpenRun
from serq.runtime.open_run.request import OpenRequest

_ADMISSION: Final = attrgetter("admission")
_ROW: Final = attrgetter("row")
_NOBODY: Final[list[OpenRequest]] = []


class OpenEngine(Forming):
    """One engine, between two arrivals."""

    # --- from outside -----------------------------------------------------------------------------------

    def send(self, request: OpenRequest) -> None:
        """A request arrives now; everything before now has happened. It is taken in between two steps."""
        if -(-request.num_prompt_tokens // self.size) > self.usable:
            raise LeaveOpenRun("a prompt never fits")
        stage = self.stage
        stage.account(request.sent_time)
        stage.number += 1
        self.inbox.append(request)

    def run(self, until: float) -> None:
        """Let everything happen that comes before ``until``."""
        flight = self.flight
        while True:
            if flight:
                now = flight[0][0]
                if now >= until:
                    return
                self.end_step(now)
            elif self.inbox and self.inbox[0].sent_time < until:
                now = self.inbox[0].sent_time
                self.since = now
            else:
                return
            self.fill(now)
            if self.is_steady:
                self.decode_ahead(until)

    # --- steps ------------------------------------------------------------------------------------------

    def fill(self, now: float) -> None:
        """Form steps until as many are in flight as may be (S-103)."""
        flight = self.flight
        if self.inbox:
            self.take_in(now)
        while len(flight) < self.depth:
            while flight and not flight[0][3] and flight[0][0] <= now:
                flight.popleft()  # a step without tokens is done at once
            if not (self.running or self.waiting):
                self.is_steady = False
                return
            self.form(now)

    def end_step(self, now: float) -> None:
        """The oldest step in flight ends: its tokens come, and who has all of them is done (S-096)."""
        step = self.flight.popleft()
        self.block_time += (self.usable - self.free) * (now - self.since)
        self.since = now
        if not step[3]:
            return
        number = self.processed
        self.processed = number + 1
        self._note_step(step)
        for request in step[10]:
            if request.first_step < 0:
                request.first_time, request.first_step = now, number
            if request.num_preemptions:
                self.queue.over(request.row, now)
        if number == self.next_end:
            self._end(number, step[1], now)

    def _note_step(self, step: Step) -> None:
        """A step with tokens has ended."""
        table = self.table
        table.end.append(step[0])
        table.formed.append(step[1])
        table.start.append(step[2])
        table.tokens.append(step[3])
        table.scheduled.append(step[4])
        table.prefill_tokens.append(step[5])
        table.running.append(step[6])
        table.waiting.append(step[7])
        table.free_blocks.append(step[8])
        table.preempted.append(step[9])
        self.preemptions += step[9]

    def _end(self, number: int, formed: float, now: float) -> None:
        """Requests have got their last token, with step ``number``."""
        ending = self.pop_ending(number)
        if len(ending) > 1:
            ending.sort(key=_ADMISSION)
        stage, running, done = self.stage, self.running, self.done
        rank = stage.rank
        stage.account(now)
        for request in ending:
            del running[request]
            self.release(request, request.offset + number + 1, request.outputs - 1)
            request.num_output_tokens = request.deliveries = request.outputs
            request.last_time = request.end_time = now
            request.last_step = number
            request.reason = "stop" if request.stops else "length"
            stage.number -= 1
            stage.complete(now, request.scheduled_time, request.scheduled_time - request.sent_time)
            done.append((now, formed, rank, request))

    def decode_ahead(self, until: float) -> None:
        """Steps of the same decodes follow each other, until somebody ends, comes, or finds no block."""
        flight, needs, size = self.flight, self.full_at, self.size
        ends, frees = [step[0] for step in flight], [step[8] for step in flight]
        formed, limit = self.formed, self.next_end
        free, held, usable = self.free, self.held, self.usable
        since, block_time = self.since, self.block_time
        changes = self.cost_changes
        price = 0.0 if changes else self.decode_price(formed, held, ends[0])
        end = ends[-1]
        place = 0
        while formed <= limit:
            now = ends[place]
            need = needs[-formed % size]
            if now >= until or need > free:
                break
            if changes:
                price = self.decode_price(formed, held + need, now)
            block_time += (usable - free) * (now - since)
            since = now
            free -= need
            held += need
            formed += 1
            place += 1
            end += price
            ends.append(end)
            frees.append(free)
        if not place:
            return
        if not end > ends[-2]:
            raise LeaveOpenRun("a step takes no time that the clock can show")
        self._note_steps(place, ends, frees)
        if self.cached is not None and free < self.free:
            self.cached.take(self.free - free)
        self.free, self.since, self.block_time, self.held = free, since, block_time, held
        self.device_free_at = end
        self.formed = formed
        if formed - 1 == limit:
            self.uncount_ending(formed - 1)

    def _note_steps(self, ended: int, ends: list[float], frees: list[int]) -> None:
        """``ended`` steps have ended, and as many been formed, which are alike; ``ends`` begin with those
        that were in flight.
        """
        flight, table, depth = self.flight, self.table, self.depth
        count, running, waiting = self.count, len(self.running), len(self.waiting)
        for _ in range(min(ended, depth)):
            self._note_step(flight.popleft())
        over = max(ended - depth, 0)
        if over:
            table.formed.extend(ends[:over])
            table.start.extend(ends[depth - 1 : depth - 1 + over])
            table.end.extend(ends[depth : depth + over])
            table.free_blocks.extend(frees[depth : depth + over])
            counts, nothing = [count] * over, [0] * over
            table.tokens.extend(counts)
            table.scheduled.extend(counts)
            table.prefill_tokens.extend(nothing)
            table.preempted.extend(nothing)
            table.running.extend([running] * over)
            table.waiting.extend([waiting] * over)
        self.processed += ended
        for place in range(over, ended):
            begin, end = ends[place + depth - 1], ends[place + depth]
            free = frees[place + depth]
            flight.append((end, ends[place], begin, count, count, 0, running, waiting, free, 0, _NOBODY))

    # --- figures ----------------------------------------------------------------------------------------

    def account(self, now: float) -> None:
        """Add the time since the last step end to the integral of blocks in use."""
        if now != self.since:
            self.block_time += (self.usable - self.free) * (now - self.since)
            self.since = now

    def reset(self, now: float) -> None:
        """Warm-up is over, and the log has forgotten what it measured (R-B-091)."""
        self.since, self.block_time, self.preemptions = now, 0.0, 0

    def close(self, now: float) -> None:
        """The run is over: write down what the engine on the clock would show."""
        self.account(now)
        self.log.settle(now, self.block_time, self.preemptions)
        self.stage.iterations = self.queue.formed = self.stage.planned_steps = self.formed
        for request in self.running:
            self._note_progress(request)
        for request in sorted(self.waiting, key=_ROW):
            self.queue.stays.add(
                request.row, "waiting", request.waits_since, nan, "", -1, request.num_preemptions
            )

    def _note_progress(self, request: OpenRequest) -> None:
        """How far a request has come that runs."""
        ended = self.processed - 1
        if request.joined < 0 or ended < request.joined:
            return
        outputs = request.before + ended - request.joined + 1
        request.num_output_tokens = request.deliveries = outputs
        request.last_time, request.last_step = self.table.end[-1], ended
