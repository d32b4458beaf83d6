"""Make sample.csv: two minutes of invented chat requests in the format of the Azure LLM inference traces.

The distributions are made up; nothing in the file comes from a real trace.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from serq.runtime.random import DrawStream, RandomSource

RATE = 6.0  # requests a second
DURATION = 120.0  # seconds
START = datetime(2026, 1, 5, 9, 0, 0)


def rows(draws: DrawStream) -> list[str]:
    """One line a request: bursty gaps, mostly long prompts, answers of two kinds."""
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    now = 0.0
    while now < DURATION:
        prompt = 20 + int(draws.erlang(1, 2, 1100))
        answer = 1 + int(draws.exp(2, 380) if draws.bernoulli(3, 0.4) else draws.exp(2, 100))
        stamp = START + timedelta(seconds=now)
        lines.append(f"{stamp:%Y-%m-%d %H:%M:%S.%f}0,{min(prompt, 8000)},{min(answer, 1000)}")
        now += draws.h2(0, 1 / RATE, 2.5)
    return lines


if __name__ == "__main__":
    text = "\n".join(rows(RandomSource(2026).arrivals())) + "\n"
    Path(__file__).with_name("sample.csv").write_text(text, "utf-8")
