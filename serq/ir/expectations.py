"""What a program asks of its own run: objectives of latency and expectations (design_language.md)."""

from __future__ import annotations

from typing import Literal

from serq.ir.expressions import Expr, Node


class Objective(Node, frozen=True, tag="objective"):
    """`slo metric statistic < limit for class label;`.

    A quantile objective is met where at least that share of the requests is within the limit, one of the mean
    where the mean is.
    """

    metric: str
    source: Literal["request", "observation"]
    statistic: str
    comparison: Literal["<", "<=", ">", ">="]
    limit: float
    label: float | None = None
    """The class it is about; None: all requests."""


class Expectation(Node, frozen=True, tag="expectation"):
    """`expect condition within tolerance;`: the condition holds when the run is over.

    `==` is to 1e-9 relative; with ``tolerance`` the two sides of the `==` differ by no more than that. Both
    read the report.
    """

    condition: Expr
    tolerance: Expr | None = None


class ExpectedSamples(Node, frozen=True, tag="expected_samples"):
    """`expect order(x) == [..];` or `expect values(x) == [..];`: the samples in recording order.

    ``order`` compares exactly, ``values`` to 1e-9 relative.
    """

    series: str
    samples: tuple[float, ...]
    comparison: Literal["order", "values"] = "values"


AnyExpectation = Expectation | ExpectedSamples
