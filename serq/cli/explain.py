"""`serq explain`: what a metric of a report means."""

from __future__ import annotations

import click


@click.command()
@click.argument("metric", required=False)
def explain(metric: str | None) -> None:
    """Say how METRIC (such as ttft) is computed and where it is shown; without one, list all."""
    from serq.errors import UsageError
    from serq.ir.nearest import closest
    from serq.results.definitions import DEFINITIONS, definition, explained

    if metric is None:
        width = max(len(found.name) for found in DEFINITIONS)
        for found in DEFINITIONS:
            click.echo(f"{found.name.ljust(width)}  {found.formula}")
        return
    wanted = definition(metric.lower())
    if wanted is None:
        names = [found.name for found in DEFINITIONS]
        near = closest(metric.lower(), names)
        hint = f"did you mean `{near}`?" if near else f"there are {', '.join(f'`{name}`' for name in names)}"
        raise UsageError(f"no metric `{metric}`; {hint}")
    click.echo(explained(wanted))
