"""Reading between measured points, below them and beyond them."""

from __future__ import annotations

from pathlib import Path

import pytest

from serq.errors import DataError
from serq.kernels.measured.attention import AttentionGrid
from serq.kernels.measured.capture import CaptureSizes, default_capture_sizes
from serq.kernels.measured.curve import EXTRAPOLATED, INTERPOLATED, MEASURED, Curve
from serq.kernels.measured.links import Link
from serq.kernels.measured.moe import ExpertGrid
from serq.kernels.measured.skew import Bins
from tests.kernels.measured.tiny_tables import ATTENTION, MOE


@pytest.fixture
def grid(tmp_path: Path) -> AttentionGrid:
    (tmp_path / "attention.csv").write_text(ATTENTION)
    return AttentionGrid.read(tmp_path / "attention.csv")


@pytest.mark.parametrize(
    ("at", "value", "grade"),
    [
        (2, 10, MEASURED),
        (3, 15, INTERPOLATED),
        (1, 10, EXTRAPOLATED),  # clamped
        (8, 40, EXTRAPOLATED),  # 20 at 4 and 30 at 6 go on
    ],
)
def test_a_curve(at: float, value: float, grade: int) -> None:
    assert Curve({6: 30, 2: 10, 4: 20}).at(at) == (value, grade)


def test_a_curve_of_one_point_is_constant() -> None:
    assert [Curve({4: 7}).at(at)[0] for at in (1, 4, 9)] == [7, 7, 7]


def test_no_time_is_below_nothing() -> None:
    assert Curve({1: 10, 2: 4}).at(5) == (0, EXTRAPOLATED)


def test_all_four_axes_are_linear(grid: AttentionGrid) -> None:
    # chunk 24 is half way, history 16 a quarter, context 150 half way.
    at_16, at_32 = 420 + (530 - 420) / 4, 840 + (1060 - 840) / 4
    assert grid.at(24, 16, 1, 150) == (pytest.approx((at_16 + at_32) / 2), INTERPOLATED)


def test_the_grid_is_clamped_below_and_extended_above(grid: AttentionGrid) -> None:
    assert grid.at(16, 0, 1, 30) == (400, EXTRAPOLATED)
    assert grid.at(16, 0, 1, 300) == (480, EXTRAPOLATED)
    assert grid.at(48, 0, 0, 0) == (260, EXTRAPOLATED)
    assert grid.at(16, 128, 0, 0) == (200, EXTRAPOLATED)


def test_a_small_prefill_is_never_half_way_to_none(grid: AttentionGrid) -> None:
    assert grid.at(2, 0, 1, 100) == (400, EXTRAPOLATED)


def test_a_pair_that_was_not_measured_is_the_nearest_one_of_its_kind(grid: AttentionGrid) -> None:
    # (16, 4) is not in the grid; (16, 1) is.
    assert grid.at(16, 0, 4, 200) == (440, EXTRAPOLATED)
    assert grid.at(16, 0, 2, 200) == (pytest.approx(440), EXTRAPOLATED)


@pytest.mark.parametrize(
    ("beginnings", "reason"),
    [
        (("0,",), "decodes alone"),
        (("16,0,0", "16,64,0", "32,0,0", "32,64,0"), "prefill alone"),
        (("16,0,1", "16,64,1", "32,0,1", "32,64,1"), "prefill with decodes"),
    ],
)
def test_a_grid_lacks_a_kind_of_batch(tmp_path: Path, beginnings: tuple[str, ...], reason: str) -> None:
    path = tmp_path / "attention.csv"
    path.write_text("\n".join(row for row in ATTENTION.splitlines() if not row.startswith(beginnings)))
    with pytest.raises(DataError, match=reason):
        AttentionGrid.read(path)


def test_experts_by_tokens_and_by_activated_experts(tmp_path: Path) -> None:
    (tmp_path / "moe.csv").write_text(MOE)
    experts = ExpertGrid.read(tmp_path / "moe.csv")
    assert experts.at(4, 8) == (50, MEASURED)
    assert experts.at(4, 5) == (35, INTERPOLATED)
    assert experts.at(6, 8) == (55, INTERPOLATED)
    # One token was measured with two experts only: 10; half way between it and 4 tokens at 8 experts.
    assert experts.at(2.5, 8) == (30, EXTRAPOLATED)


def test_bins_are_closed_on_the_right() -> None:
    bins = Bins((0, 2, 4), ("a", "b"))
    assert [bins.place(value) for value in (1, 2, 2.1, 4, 5)] == [0, 0, 1, 1, 2]
    assert bins.place(0) == -1


def test_capture_sizes_of_vllm() -> None:
    sizes = default_capture_sizes(256, 2048)
    assert sizes[:5] == (1, 2, 4, 8, 16) and sizes[34:38] == (256, 272, 288, 304) and sizes[-1] == 512
    assert len(sizes) == 51
    assert default_capture_sizes(128, 2048)[-1] == 256
    assert default_capture_sizes(128, 20)[-1] == 16
    capture = CaptureSizes(sizes)
    assert [capture.pad(tokens) for tokens in (1, 3, 9, 257, 512, 513)] == [1, 4, 16, 272, 512, 513]
    assert CaptureSizes(()).pad(3) == 3


def test_collectives_on_a_link() -> None:
    link = Link(100, 1, expert_bytes=0.5)
    # Four devices, 400 bytes: two phases in which 300 pass.
    assert link.all_reduce(400, 4) == 2 * (3 + 1)
    # The pieces of three others pass, 40 bytes each, charged by half.
    assert link.exchange(40, 4) == pytest.approx(0.6 + 1)


@pytest.mark.parametrize("link", [(0, 1), (-1, 1), (float("nan"), 1), (1, -1), (1, 1, -1)])
def test_an_impossible_link(link: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="link"):
        Link(*link)
