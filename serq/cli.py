"""The command ``serq``."""

from __future__ import annotations

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="serq")
def main() -> None:
    """Run serving deployments written as programs."""
