"""The prefix cache of one pool: what sessions left behind, in the order in which it was left."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from copy import copy
from math import floor, isfinite
from weakref import WeakValueDictionary

from serq.runtime.session import Session


class Remembered:
    """A session as one pool knows it: alive, its attributes as they are; ended, as at its last release there.

    A dead entry knows the session as it was when the entry died. Eviction keys and spill expressions read it
    (R-A-085).
    """

    __slots__ = ("__weakref__", "dead", "session", "snapshot")

    def __init__(self, session: Session, dead: bool = False) -> None:
        self.session = session
        self.snapshot = copy(session) if dead else session
        self.dead = dead

    @property
    def now(self) -> Session:
        """The session whose attributes count at this moment."""
        return self.session if self.session.live and not self.dead else self.snapshot


class Entry:
    """Units that a session left in a pool. At most one per session is live: found by the session again."""

    __slots__ = ("live", "order", "released", "remembered", "session", "units")

    def __init__(self, session: Session, units: float, released: float, order: int) -> None:
        self.session = session
        self.units = units
        self.released = released
        self.order = order
        self.live = True
        self.remembered: Remembered | None = None

    @property
    def owner(self) -> Session:
        """The session whose attributes an eviction key reads."""
        return self.session if self.remembered is None else self.remembered.now

    @property
    def finder(self) -> Session | None:
        """The session that finds this entry again; nobody finds a dead one, or one of an ended session."""
        return self.session if self.live and self.session.live else None

    def waiting(self) -> float:
        """1 if the session that finds this entry again waits for a hold (`waiting`, R-A-032)."""
        return 1.0 if self.live and self.session.waiting_hold is not None else 0.0


class PrefixCache:
    """Entries of one pool in release order (R-A-080 to R-A-087). Accounting is the pool's business."""

    __slots__ = ("_live", "_order", "_remembered", "block", "entries", "remembers", "total")

    def __init__(self, block: float | None, reads_attributes: bool) -> None:
        self.block = block
        self.total = 0.0
        self.entries: OrderedDict[int, Entry] = OrderedDict()
        self._live: dict[int, Entry] = {}
        self._order = 0
        self.remembers = reads_attributes
        """Whether somebody reads the attributes of sessions that left something here."""
        self._remembered: WeakValueDictionary[int, Remembered] | None = (
            WeakValueDictionary() if reads_attributes else None
        )

    def amount_of(self, session: Session | None) -> float:
        """Units of the live entry of ``session``: `cachedin` (R-A-030)."""
        entry = None if session is None else self._live.get(session.number)
        return 0.0 if entry is None else entry.units

    def whole_blocks(self, units: float) -> float:
        """``units`` rounded down to blocks, never negative (R-A-081, R-A-083)."""
        if not units > 0.0:
            return 0.0
        if self.block is None or not isfinite(units):
            return units
        return floor(units / self.block) * self.block

    def store(self, session: Session, units: float, now: float) -> Entry:
        """Leave ``units`` as the live entry of ``session``; an older one disappears (R-A-080)."""
        self.drop(session)
        entry = self._add(session, units, now)
        self._live[session.number] = entry
        return entry

    def bury(self, dead: Entry, units: float, now: float) -> None:
        """Leave ``units`` of ``dead``, an entry of another pool: its session does not find them again."""
        entry = self._add(dead.session, units, now)
        entry.live = False
        if self._remembered is not None:
            entry.remembered = dead.remembered or Remembered(dead.session, dead=True)

    def _add(self, session: Session, units: float, now: float) -> Entry:
        self._order += 1
        entry = Entry(session, units, now, self._order)
        self.entries[entry.order] = entry
        self.total += units
        return entry

    def remember(self, session: Session) -> None:
        """``session`` released units here: its attributes now are what counts once it has ended (R-A-085)."""
        if self._remembered is None:
            return
        entry = self._live.get(session.number)
        remembered = self._remembered.get(session.number)
        if remembered is None:
            if entry is None:
                return
            remembered = self._remembered[session.number] = Remembered(session)
        remembered.snapshot = copy(session)
        if entry is not None:
            entry.remembered = remembered

    def consume(self, session: Session, limit: float | None) -> float:
        """Take the live entry of ``session`` back, at most ``limit`` units of it in whole blocks (R-A-083).

        The rest stays, dead, with its age. Returns the units taken.
        """
        entry = self._live.get(session.number)
        if entry is None:
            return 0.0
        taken = entry.units if limit is None or limit >= entry.units else self.whole_blocks(limit)
        if taken > 0.0:
            self.shrink(entry, taken)
        self._retire(entry)
        if self._remembered is not None:
            entry.remembered = Remembered(session, dead=True)
        return taken

    def _retire(self, entry: Entry) -> None:
        if entry.live:
            entry.live = False
            del self._live[entry.session.number]

    def drop(self, session: Session) -> None:
        """Remove the live entry of ``session``, if there is one (R-A-087)."""
        entry = self._live.get(session.number)
        if entry is not None:
            self.shrink(entry, entry.units)

    def shrink(self, entry: Entry, units: float) -> None:
        """Take ``units`` off the tail of ``entry``; an empty entry vanishes."""
        entry.units -= units
        self.total -= units
        if not entry.units > 0.0:
            self._retire(entry)
            del self.entries[entry.order]
            if not self.entries:
                self.total = 0.0

    def oldest(self) -> Entry:
        """The entry released first (`evict lru`)."""
        return next(iter(self.entries.values()))

    def all(self) -> Iterable[Entry]:
        """Entries in release order."""
        return self.entries.values()
