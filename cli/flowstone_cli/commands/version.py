"""`flow version`: which version this is."""

import typer

from flowstone_cli import VERSION


def command(ctx: typer.Context) -> int:
    """Print the version."""
    ctx.obj.out.write(f"flow {VERSION}\n")
    return 0
