"""``swordplay serve``, ``token`` and ``load-test``: handed over to the model server."""

# No postponed annotations here: Typer reads them.

import typer

from swordplay.cli.shared import OPTIONS
from swordplay.service.commands import COMMANDS, main

app = typer.Typer(**OPTIONS)


def _hand_over(name: str, about: str) -> None:
    """Add a command of the model server, which reads its own options."""

    @app.command(
        name,
        short_help=about,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    def command(context: typer.Context) -> None:
        raise typer.Exit(main([name, *context.args]))


for name, about in COMMANDS.items():
    _hand_over(name, about)
