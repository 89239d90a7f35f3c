"""What `convert` does: it reads manifests of other systems, and prints ours with what has no equal beside them."""

from __future__ import annotations

import sys

from headrace.core.errors import Misconfigured
from headrace.core.plural import counted
from headrace_cli.commands.console import show, tell
from headrace_cli.commands.rules import Given
from headrace_cli.convert import convert
from headrace_cli.manifests import documents
from headrace_cli.manifests.documents import Document
from headrace_cli.view.output import text_of


def convert_files(given: Given) -> int:
    found = convert((each for file in given["files"] for each in _documents(file)), given["suffix"])
    for note in found.notes:
        tell(str(note))
    if given["output"] == "json":
        show(text_of({"apiVersion": "v1", "kind": "List", "items": found.objects}, "json"))
    else:
        show("---\n".join(text_of(each, "yaml") for each in found.objects))
    lost = sum(note.lost for note in found.notes)
    if given["strict"] and lost:
        tell(f"{counted(lost, 'thing has', 'things have')} no equal")
        return 1
    return 0


def _documents(file: str) -> list[Document]:
    if file != "-":
        return documents.read_files([file])
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise Misconfigured(f"standard input is not UTF-8: {error}", field="-f") from error
    return documents.parse_text("standard input", text)
