"""The worker's half of an engine's `kv_connector`: transfers begin with a step and are reported by one."""

from __future__ import annotations

from collections.abc import Callable

from serq.runtime.clock import Ticket
from serq.runtime.serving.engine_connector import EngineConnector, Transfer
from serq.runtime.serving.sent_request import SentRequest
from serq.runtime.serving.transfer_link import TransferLink, TransferSize
from serq.runtime.vllm.kv_cache_manager import KVCacheManager
from serq.runtime.vllm.kv_cache_spec import MambaSpec, ceil_div
from serq.runtime.vllm.scheduler_output import ModelOutput


class KVWorker:
    """The transfers of one engine. ``wake`` lets the engine take a turn: something has ended.

    A load begins when the device begins the step that ordered it, and its end is reported with the output of
    the next step that ends; an engine that has nothing to compute takes an empty step for it (S-133).
    """

    def __init__(
        self,
        connector: EngineConnector,
        link: TransferLink,
        manager: KVCacheManager,
        wake: Callable[[], None],
    ) -> None:
        self.link = link
        self.num_under_way = 0
        """Transfers ordered and not ended."""
        self._connector = connector
        self._manager = manager
        self._wake = wake
        self._ended: list[Transfer] = []
        self._fetched: list[SentRequest] = []
        self._leases: dict[SentRequest, Ticket] = {}
        connector.on_kept = self._keep
        connector.on_asked = link.asked_to_offload
        connector.on_unwanted = lambda sent: sent.engine.let_go(sent)

    # --- transfers --------------------------------------------------------------------------------------

    def begin(self, start: float) -> None:
        """A step was formed that the device begins at ``start``: so do the transfers that it ordered."""
        clock = self.link.clock
        ordered, self._connector.ordered = self._connector.ordered, []
        for transfer in ordered:
            self.num_under_way += 1
            size = self._measure(transfer)
            if start > clock.now:
                clock.at(start, self._starter(transfer, size))
            else:
                self._start(transfer, size)

    def _starter(self, transfer: Transfer, size: TransferSize) -> Callable[[], None]:
        return lambda: self._start(transfer, size)

    def _start(self, transfer: Transfer, size: TransferSize) -> None:
        def ended(failed: bool = False) -> None:
            transfer.failed = failed
            self._end(transfer)

        if transfer.kind == "fetch":
            self.link.load(size, ended)
        else:
            self.link.offload(size, ended)

    def _measure(self, transfer: Transfer) -> TransferSize:
        """How much moves, and which blocks of the first group a load fills: a failure names them (S-134)."""
        if transfer.kind != "store":
            size = self._manager.managers[0].block_size
            table = self._manager.block_ids(transfer.client.request.request_id)[0]
            transfer.block_ids = list(table[transfer.start // size : ceil_div(transfer.end, size)])
        blocks = sum(
            ceil_div(transfer.end, group.block_size) - transfer.start // group.block_size
            for group in self._manager.managers
            if not isinstance(group.spec, MambaSpec)
        )
        return TransferSize(float(transfer.end - transfer.start), float(blocks))

    def _end(self, transfer: Transfer) -> None:
        self.num_under_way -= 1
        self._ended.append(transfer)
        if transfer.kind == "fetch" and not transfer.failed:
            transfer.client.ready_time = self.link.clock.now
        if transfer.source is not None:
            transfer.source.engine.let_go(transfer.source)
        self._wake()

    @property
    def has_ended(self) -> bool:
        """Whether something has ended since the last report."""
        return bool(self._ended or self._fetched)

    def report(self, output: ModelOutput) -> bool:
        """Put into ``output`` what has ended since the last report; whether anything has (S-133 to S-135)."""
        ended, self._ended = self._ended, []
        for transfer in ended:
            request_id = transfer.client.request.request_id
            if transfer.kind == "store":
                self._connector.offload.store_finished(request_id)
            elif transfer.kind == "restore":
                self._connector.offload.load_finished(request_id)
        loads = [transfer for transfer in ended if transfer.kind != "store"]
        output.finished_recving = sorted(load.client.request.request_id for load in loads)
        output.invalid_block_ids = {block_id for load in loads if load.failed for block_id in load.block_ids}
        output.finished_sending = sorted(sent.request.request_id for sent in self._fetched)
        anything = bool(ended or self._fetched)
        self._fetched.clear()
        return anything

    # --- blocks kept for others -------------------------------------------------------------------------

    def _keep(self, sent: SentRequest) -> None:
        """The blocks of ``sent`` stay until they are fetched, at most for the connector's `release_after`."""
        clock = self.link.clock
        end = clock.now + self.link.release_after
        self._leases[sent] = clock.at(end, lambda: self.let_go(sent))

    def let_go(self, sent: SentRequest) -> None:
        """Nobody will fetch the blocks of ``sent`` any more; that takes an event, as the message would."""
        if sent.holds_kv:
            sent.holds_kv = False
            self._leases.pop(sent).cancel()
            self.link.clock.at(self.link.clock.now, lambda: self._release(sent))

    def _release(self, sent: SentRequest) -> None:
        self._fetched.append(sent)
        self._wake()
