"""What the command line says of strangers' names: a terminal obeys nothing in it."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from headrace_cli import command_line
from headrace_cli.commands import root
from headrace_cli.commands.console import say, show_item, show_list, tell
from headrace_cli.laptop import file_channels

# Sets the title of a terminal's window.
TITLE = "\x1b]0;owned\x07"
SHOWN = "\\x1b]0;owned\\x07"


def test_a_name_is_shown_as_it_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    item = {"namespace": "shop", "name": f"orders{TITLE}"}
    show_list([item], "name", [])
    show_item(item, "name", lambda _: "")
    assert capsys.readouterr().out == f"shop/orders{SHOWN}\n" * 2


def test_sentences_keep_their_lines_and_letters(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"Größe of {TITLE}\n  next\x9b2J")
    tell(f"{TITLE} was\rnot changed")
    assert capsys.readouterr() == (f"Größe of {SHOWN}\n  next\\x9b2J\n", f"{SHOWN} was\\rnot changed\n")


def test_an_error_about_a_manifest_shows_its_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "channel.yaml"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": f"Odd{TITLE}", "metadata": {"name": "a"}}))

    @click.command()
    def reads() -> None:
        file_channels.load([str(file)], "http://localhost")

    monkeypatch.setattr(root, "tree", lambda: reads)
    assert command_line.main([]) == 2
    told = capsys.readouterr().err
    assert f"Odd{SHOWN}" in told
    assert "\x1b" not in told
    assert "\x07" not in told
