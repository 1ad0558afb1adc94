"""``swordplay serve``, ``token`` and ``load-test``: handed over to the model server."""

# No postponed annotations here: Typer reads them.

import typer

from swordplay.cli.shared import OPTIONS

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
        from swordplay.service.commands import main

        raise typer.Exit(main([name, *context.args]))


_hand_over("serve", "Serve models over HTTP, durably, with a page.")
_hand_over("token", "Make a token for the server.")
_hand_over("load-test", "Measure a running server on this machine.")
