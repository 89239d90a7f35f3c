"""`completion`: its words, and the script of a shell that click writes."""

from __future__ import annotations

import click

from headrace.core.errors import Misconfigured
from headrace_cli.commands import params, program

COMPLETION = """\
Print the script by which a shell completes verbs, options, and the names of channels and Subscriptions.

examples:
  source <(kn-jetstream completion bash)                                     bash; or in ~/.bashrc
  kn-jetstream completion zsh > "${fpath[1]}/_kn-jetstream"                  zsh
  kn-jetstream completion fish > ~/.config/fish/completions/kn-jetstream.fish

\b
It completes for `kn-jetstream` or `headrace`, by whichever name it was called: kn jetstream completion bash
"""


def _completion(*, shell: str) -> int:
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    if script is None:
        raise Misconfigured(f"{shell} can't be completed for", field="SHELL")
    tree = click.get_current_context().find_root().command
    # A shell completes the words behind a program; in `kn jetstream` the program is kn, which is not ours.
    click.echo(script(tree, {}, program.name().replace(" ", "-"), program.completion_variable()).source())
    return 0


COMMAND = params.Words(COMPLETION, "Completion for bash, zsh and fish.").command(
    "completion",
    _completion,
    [click.Argument(["shell"], type=click.Choice(("bash", "zsh", "fish")), metavar="SHELL")],
)
