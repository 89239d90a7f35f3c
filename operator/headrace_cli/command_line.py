"""Runs one command line. The words of its verbs are in `headrace_cli.commands`.

Errors end here: exit status 2 for what the caller can cure, 1 for what was refused or only waiting cures.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from headrace.core.errors import HeadraceError, InvalidSpec, Misconfigured
from headrace.core.quoting import bounded
from headrace_cli.commands import program, root
from headrace_cli.commands.console import say

INTERRUPTED = 130
# Errors of the disk that takes the output. A pipe that nobody reads any more, as behind `| head`, click takes for an
# end.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status."""
    try:
        given = None if arguments is None else list(arguments)
        tree, name, variable = root.tree(), program.name(), program.completion_variable()
        return int(tree.main(given, prog_name=name, complete_var=variable, standalone_mode=False) or 0)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        say(bounded(shown.getvalue().rstrip("\n")), err=True)
        return error.exit_code
    except (Misconfigured, InvalidSpec) as error:
        return _failed(error, 2)
    except HeadraceError as error:
        return _failed(error, 1)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except OSError as error:
        if error.errno not in FULL:
            raise
        return _unwritten(error)


def _failed(error: HeadraceError, status: int) -> int:
    say(f"{program.name()}: {error}", err=True)
    return status


def _unwritten(error: OSError) -> int:
    with suppress(OSError):
        say(f"{program.name()}: the output can't be written: {error.strerror}", err=True)
    with suppress(OSError, ValueError):
        # Otherwise Python would try to write the rest of the buffer once more at the end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
