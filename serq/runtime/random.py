"""Random draws that depend on where they stand in the program, not on what happened before them.

A draw is a counter-based hash of (seed, purpose, owner, site, n): which stream it belongs to, whose draw it
is, which ``~`` in the text asks, and how often this ``~`` has asked before. No generator state is shared, so
a branch not taken, a stage added or a request preempted moves no other draw, and two programs that differ
only in the deployment serve the same sessions (common random numbers).

Everything up to the 53-bit fraction is 64-bit integer arithmetic; distributions are inverse transforms with
scalar ``math`` (R-B-102, R-B-103). ``tests/runtime/test_random.py`` pins the first values for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from math import cos, exp, inf, isfinite, log, log1p, pi, sqrt
from typing import Final

from serq.errors import RunError
from serq.ir.nodes import Distribution

_MASK: Final = (1 << 64) - 1
_MULTIPLIER_1: Final = 0xBF58476D1CE4E5B9
_MULTIPLIER_2: Final = 0x94D049BB133111EB
"""The finalizer of SplitMix64: two multiplications and three shifts give full avalanche."""

_KEY_STEP: Final = 0x9E3779B97F4A7C15
_SITE_STEP: Final = 0xD1342543DE82EF95
_DRAW_STEP: Final = 0xDA942042E4DD58B5
"""Odd 64-bit constants without common structure: one for each direction in which a counter runs."""

_FRACTION: Final = 2.0**-53
_MAX_ERLANG_STAGES: Final = 1_000_000
_SMALLEST: Final = 2.0**-1022
"""What a gamma draw counts as that is too small for a double: a draw of positive numbers is never 0."""


class Purpose(IntEnum):
    """What a stream is for, and in brackets who owns it. The numbers are part of every draw: append only."""

    ARRIVALS = 1
    """Gaps between open arrivals [nobody]."""
    TRACE = 2
    """Which session of an unordered trace an arriving session replays (R-B-083) [session]."""
    WORKLOAD = 3
    """Draws of `init` and `turn` blocks [session, turn]."""
    SESSION = 4
    """Draws of session statements [session, turn]."""
    STAGE = 5
    """Draws of `budget`, `chunk`, `cost` and `ps` capacities [stage name, member]."""
    POOL = 6
    """Draws of eviction keys and spill expressions [pool name, member]."""
    REQUEST = 7
    """Which drafts of a request are accepted [session, number of the request in it]."""
    CONNECTOR = 8
    """Draws of a connector's expressions [connector name]."""


def _mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * _MULTIPLIER_1) & _MASK
    word = ((word ^ (word >> 27)) * _MULTIPLIER_2) & _MASK
    return word ^ (word >> 31)


def _extend(key: int, part: int) -> int:
    return _mix((key + (part + 1) * _KEY_STEP) & _MASK)


def _number(name: str) -> int:
    """A name as a 64-bit number: its UTF-8 bytes, eight at a time, and their count."""
    data = name.encode()
    key = len(data)
    for start in range(0, len(data), 8):
        key = _extend(key, int.from_bytes(data[start : start + 8], "little"))
    return key


class DrawStream:
    """The draws of one owner for one purpose; ``site`` is the number of the draw in the IR (``nodes.Draw``).

    Each site counts its own draws from 0. Every method but :meth:`det` takes at least one number of the
    stream.
    """

    __slots__ = ("_counts", "_key")

    def __init__(self, key: int) -> None:
        self._key = key
        self._counts: dict[int, int] = {}

    def word(self, site: int) -> int:
        """The next 64 random bits of ``site``."""
        counts = self._counts
        count = counts.get(site, 0)
        counts[site] = count + 1
        word = (self._key + site * _SITE_STEP + count * _DRAW_STEP) & _MASK
        word = ((word ^ (word >> 30)) * _MULTIPLIER_1) & _MASK
        word = ((word ^ (word >> 27)) * _MULTIPLIER_2) & _MASK
        return word ^ (word >> 31)

    def unit(self, site: int) -> float:
        """The next number of ``site``, uniform on [0, 1): a multiple of 2**-53."""
        return (self.word(site) >> 11) * _FRACTION

    def index(self, site: int, count: int) -> int:
        """A whole number, uniform on 0 .. count-1 (``count`` below 2**32, so the bias is below 2**-32)."""
        return (self.word(site) * count) >> 64

    def exp(self, site: int, mean: float) -> float:
        """`~exp(mean)`: exponential. The parameter is not checked: a mean of 0 gives 0 (R-B-102)."""
        return -mean * log(1.0 - (self.word(site) >> 11) * _FRACTION)

    def det(self, site: int, value: float) -> float:
        """`~det(value)`: the value itself; takes no number of the stream (R-B-103)."""
        return value

    def uniform(self, site: int, low: float, high: float) -> float:
        """`~uniform(low, high)` (R-B-103)."""
        return low + (high - low) * ((self.word(site) >> 11) * _FRACTION)

    def erlang(self, site: int, stages: float, mean: float) -> float:
        """`~erlang(stages, mean)`: the sum of max(1, floor(stages)) exponentials, ``mean`` in all (R-B-103).

        Raises RunError above a million stages.
        """
        if stages > _MAX_ERLANG_STAGES:
            raise RunError(f"`~erlang` with {stages:g} stages: at most {_MAX_ERLANG_STAGES} are possible")
        count = int(stages) if stages >= 1 else 1
        total = 0.0
        for _ in range(count):
            total += self.exp(site, mean / count)
        return total

    def h2(self, site: int, mean: float, cv2: float) -> float:
        """`~h2(mean, cv2)`: hyperexponential of two phases with balanced means (R-B-103).

        ``cv2`` is the squared coefficient of variation; below 1 it counts as 1. Raises RunError where it is
        infinite.
        """
        variation = cv2 if cv2 > 1.0 else 1.0
        if not isfinite(variation):
            raise RunError("`~h2` needs a finite squared coefficient of variation")
        p = (1.0 + sqrt((variation - 1.0) / (variation + 1.0))) / 2.0
        share = p if self.unit(site) < p else 1.0 - p
        return self.exp(site, mean / (2.0 * share))

    def gamma(self, site: int, shape: float, mean: float) -> float:
        """`~gamma(shape, mean)`: squared coefficient of variation 1 / ``shape``; if infinite, ``mean``.

        Marsaglia and Tsang, "A simple method for generating gamma variables" (2000). The draw takes one
        number of the stream; what the method rejects comes from a stream keyed by that number, so the next
        draw does not depend on how often it did. Raises RunError where ``shape`` is not positive.
        """
        own = DrawStream(self.word(site))
        if not shape > 0.0:
            raise RunError(f"`~gamma` needs a positive shape, not {shape:g}", code="impossible-draw")
        if shape == inf:
            return mean
        d = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
        accepted = 0.0
        while not accepted:
            normal = own.normal(0)
            cube = (1.0 + normal / sqrt(9.0 * d)) ** 3
            if cube > 0.0 and log(1.0 - own.unit(1)) < 0.5 * normal * normal + d - d * cube + d * log(cube):
                accepted = d * cube
        if shape < 1.0:
            accepted *= (1.0 - own.unit(2)) ** (1.0 / shape)
        return mean * max(accepted / shape, _SMALLEST)

    def lognormal(self, site: int, mean: float, cv2: float) -> float:
        """`~lognormal(mean, cv2)`: log-normal with this mean and squared coefficient of variation.

        Takes one number of the stream, like :meth:`gamma`. Raises RunError where ``cv2`` is negative or not
        finite.
        """
        own = DrawStream(self.word(site))
        if not 0.0 <= cv2 < inf:
            message = f"`~lognormal` needs a finite squared coefficient of variation, 0 or more, not {cv2:g}"
            raise RunError(message, code="impossible-draw")
        variance = log1p(cv2)
        return mean * exp(sqrt(variance) * own.normal(0) - variance / 2.0)

    def normal(self, site: int) -> float:
        """A standard normal number of ``site``, of two of its uniform ones (Box and Muller)."""
        radius = sqrt(-2.0 * log(1.0 - self.unit(site)))
        return radius * cos(2.0 * pi * self.unit(site))

    def bernoulli(self, site: int, probability: float) -> float:
        """`~bernoulli(probability)`: 1 with that probability, else 0 (R-B-103)."""
        return 1.0 if self.unit(site) < probability else 0.0


SAMPLERS: Final[Mapping[Distribution, Callable[..., float]]] = {
    "exp": DrawStream.exp,
    "det": DrawStream.det,
    "uniform": DrawStream.uniform,
    "erlang": DrawStream.erlang,
    "h2": DrawStream.h2,
    "bernoulli": DrawStream.bernoulli,
    "gamma": DrawStream.gamma,
    "lognormal": DrawStream.lognormal,
}
"""Distribution of the language -> method called as ``method(stream, site, *arguments)``."""


class RandomSource:
    """All streams of one run. ``seed`` is any integer; it counts modulo 2**64."""

    __slots__ = ("_keys", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        root = _extend(0, seed & _MASK)
        self._keys = {purpose: _extend(root, purpose) for purpose in Purpose}

    def _stream(self, purpose: Purpose, *owner: int) -> DrawStream:
        key = self._keys[purpose]
        for part in owner:
            key = _extend(key, part)
        return DrawStream(key)

    def arrivals(self) -> DrawStream:
        """The gaps of the arrival process."""
        return self._stream(Purpose.ARRIVALS)

    def trace(self, session: int) -> DrawStream:
        """The choice of a trace session for session number ``session``."""
        return self._stream(Purpose.TRACE, session)

    def workload(self, session: int, turn: int) -> DrawStream:
        """The draws of `init` (turn 0) and `turn` blocks; ``turn`` counts the `turn;` statements executed so
        far, whatever the program assigns to `turn_no`.
        """
        return self._stream(Purpose.WORKLOAD, session, turn)

    def session(self, session: int, turn: int) -> DrawStream:
        """The draws of session statements after the ``turn``-th `turn;`, counted as in :meth:`workload`."""
        return self._stream(Purpose.SESSION, session, turn)

    def request(self, session: int, number: int) -> DrawStream:
        """The draws of the ``number``-th request of session number ``session``."""
        return self._stream(Purpose.REQUEST, session, number)

    def stage(self, name: str, member: int) -> DrawStream:
        """The draws of a stage's own expressions."""
        return self._stream(Purpose.STAGE, _number(name), member)

    def connector(self, name: str) -> DrawStream:
        """The draws of a connector's own expressions."""
        return self._stream(Purpose.CONNECTOR, _number(name))

    def pool(self, name: str, member: int) -> DrawStream:
        """The draws of a pool's own expressions."""
        return self._stream(Purpose.POOL, _number(name), member)
