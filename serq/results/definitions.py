"""What every metric of a report means: one definition each, for `serq explain` and the docs."""

from __future__ import annotations

from typing import Final, NamedTuple


class Definition(NamedTuple):
    """One metric. ``unit`` is empty for a share or a count of nothing in particular."""

    name: str
    unit: str
    formula: str
    meaning: str
    where: str


_SECONDS: Final = "seconds by convention"

DEFINITIONS: Final = (
    Definition(
        "ttft", _SECONDS, "first_token - sent",
        "Time to first token: from sending a request to the end of the step that brought its first "
        "token. NaN while none has come.",
        "requests; the table `latency`; `ttft(h)`; `slo ttft`",
    ),
    Definition(
        "tpot", _SECONDS, "(last_token - first_token) / (generated - 1)",
        "Time per output token after the first, of one request. NaN for a request of one token. "
        "Benchmarks that divide the whole latency instead show what is normalized_latency here.",
        "requests; the table `latency`; `tpot(h)`; `slo tpot`",
    ),
    Definition(
        "normalized_latency", _SECONDS, "(last_token - sent) / generated",
        "The other time per output token, e2e / generated, which counts the wait for the first token "
        "too: normalized latency in the papers on Orca and vLLM (Kwon et al., SOSP 2023, section 6.1), "
        "TPOT in some benchmarks. Of requests that were served in full.",
        "the tables `latency` and `requests of`",
    ),
    Definition(
        "itl", _SECONDS, "(last_token - first_token) / (deliveries - 1)",
        "Mean gap between the steps that brought tokens, of one request. With speculative decoding a "
        "step may bring several tokens: itl is then longer than tpot, else they are equal.",
        "requests; `itl(h)`; `slo itl`",
    ),
    Definition(
        "e2e", _SECONDS, "last_token - sent",
        "End-to-end latency of a request that was served in full: it ended by a stop token, by length "
        "or by repetition. `e2e(h)` in a session is the time until the client goes on, however the "
        "request ended.",
        "requests; the table `latency`; `e2e(h)`; `slo e2e`",
    ),
    Definition(
        "queue_time", _SECONDS, "scheduled - queued",
        "From the engine's taking a request in, between two steps, to the step that first admitted "
        "it, as vLLM measures it. What passes between sending and taking in is part of ttft only.",
        "requests; `queue_time(h)`; `slo queue_time`",
    ),
    Definition(
        "goodput", "requests a second", "good requests / (end - warm-up)",
        "Requests served in full, at or after warm-up, that were within all limits of their class. "
        "The share is of the requests that are decided: unfinished ones count where they have missed "
        "a limit already.",
        "the table `goodput`, beside an `slo`",
    ),
    Definition(
        "throughput", "jobs a second", "completed / (end - warm-up)",
        "Jobs that a stage completed from the warm-up on; at a vllm stage a request is a job. The "
        "prefill and the decode of a step stage are two jobs.",
        "the table `stage`",
    ),
    Definition(
        "request_throughput", "requests a second", "requests / (end - warm-up)",
        "Requests that a vllm engine served in full, at or after warm-up.",
        "the table `throughput`",
    ),
    Definition(
        "input_throughput", "tokens a second", "prompt tokens / (end - warm-up)",
        "Prompt tokens of these requests, those found cached too. The figure moves when requests end, "
        "not when their prompts are computed, as in `vllm bench serve`.",
        "the table `throughput`",
    ),
    Definition(
        "output_throughput", "tokens a second", "generated tokens / (end - warm-up)",
        "Output tokens of these requests; those of requests that had not ended are left out.",
        "the table `throughput`",
    ),
    Definition(
        "utilization", "", "time with at least one job / (end - warm-up)",
        "Share of the time in which a stage had work, not the occupancy of its servers.",
        "the table `stage`",
    ),
    Definition(
        "mean_kv_usage", "", "time average of blocks in use / blocks",
        "Share of the KV blocks that requests hold, weighted by time, from the warm-up on. Blocks "
        "that are only cached are free.",
        "the table `engine`; live: `kv_usage(S)`",
    ),
    Definition(
        "prefix_hit_rate", "", "cached prompt tokens / prompt tokens",
        "Over first admissions from the warm-up on: the share of prompt tokens that the engine had "
        "cached. A request that is admitted again after a preemption is not counted again.",
        "the table `engine`",
    ),
    Definition(
        "ci", "that of the observation", "2.093 * sd(batch means) / sqrt(20)",
        "Half-width of the 95 % confidence interval of a mean, from 20 batches of samples in "
        "recording order; infinite below 40 samples (R-B-115).",
        "the table `observation`",
    ),
    Definition(
        "device_hours", "hours", "devices * (end - warm-up) / 3600",
        "A member of a `vllm` or `step` stage has tensor_parallel_size * pipeline_parallel_size devices: "
        "the first as its executor says, else its layout, else 1. Data-parallel ranks are members. "
        "Devices count whether they compute or not; other stages have none.",
        "the table `cost of`, with --price-per-hour",
    ),
    Definition(
        "money", "that of the price", "device_hours * price_per_hour",
        "What all engines cost from the warm-up to the end, at the price that is given for a device.",
        "the table `cost of`, with --price-per-hour",
    ),
    Definition(
        "per_million_output_tokens", "money", "money / generated tokens * 1e6",
        "Tokens that requests generated which were served in full since the warm-up, as in "
        "output_throughput. Engines that only prefill for others (`kv_role kv_producer`) cost, and their "
        "requests are not counted a second time.",
        "the table `cost of`, with --price-per-hour",
    ),
    Definition(
        "per_million_tokens", "money", "money / (prompt + generated tokens) * 1e6",
        "The same with the tokens of their prompts, those found cached too.",
        "the table `cost of`, with --price-per-hour",
    ),
    Definition(
        "mser5", "samples", "argmin over d <= k/2 of sum((Y - mean(Y))^2) / (k - d)^2, times 5",
        "Where the warm-up should end, by MSER-5 (White 1997; Franklin and White 2008): Y are the means "
        "of 5 samples each without the first d, k how many there are in all. Asked of what the first "
        "`slo` limits, else of time to first token, else of the first observation, from the declared "
        "warm-up on. The report suggests a longer warm-up where it changes the mean by more than the "
        "half-width of its interval, and says that the series does not settle where the minimum lies "
        "in the second half (at least 5 means are kept) and the means of both halves are farther apart "
        "than their intervals together.",
        "a note below the tables; `report.settling`",
    ),
)  # fmt: skip
"""In the order in which the documentation shows them."""


def definition(name: str) -> Definition | None:
    """The definition of a metric, None where there is none."""
    return next((found for found in DEFINITIONS if found.name == name), None)


def explained(found: Definition) -> str:
    """A definition as text for a terminal."""
    unit = f"  [{found.unit}]" if found.unit else ""
    return f"{found.name} = {found.formula}{unit}\n\n{found.meaning}\n\nshown in: {found.where}"


def markdown() -> str:
    """The table of the documentation."""
    lines = ["| metric | formula | unit | meaning | shown in |", "|---|---|---|---|---|"]
    lines += [
        f"| `{d.name}` | {d.formula} | {d.unit or 'share'} | {d.meaning} | {d.where} |" for d in DEFINITIONS
    ]
    return "\n".join(lines) + "\n"
