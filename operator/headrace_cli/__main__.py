"""The command line: `headrace`, and `kn jetstream` as a plugin. The words of its verbs are in `headrace_cli.commands`.

Errors end here: exit status 2 for what the caller can cure, 1 for what was refused or only waiting cures.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

import click

from headrace.core.errors import HeadraceError, InvalidSpec, Misconfigured
from headrace.core.quoting import bounded
from headrace_cli.commands import root
from headrace_cli.view.output import say

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    program = root.program()
    try:
        given = None if arguments is None else list(arguments)
        variable = root.completion_variable(program)
        tree = root.tree()
        return int(tree.main(given, prog_name=program, complete_var=variable, standalone_mode=False) or 0)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        say(bounded(shown.getvalue().rstrip("\n")), err=True)
        return error.exit_code
    except (Misconfigured, InvalidSpec) as error:
        return _told(program, error, 2)
    except HeadraceError as error:
        return _told(program, error, 1)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED


def _told(program: str, error: HeadraceError, status: int) -> int:
    say(f"{program}: {error}", err=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
