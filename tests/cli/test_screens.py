"""The screens in docs/kn-plugin.md are the output of the command line of today, as far as every run gives the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.cli.conftest import marked
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Say, Subscriber
from tests.support.laptop.cli import Cli
from tests.support.nats.parking import park
from tests.support.nats.streams import Nats

PAGE = (Path(__file__).resolve().parents[2] / "docs/kn-plugin.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"[A-Z]+ {2,}[A-Z]")


def screens() -> Iterator[tuple[list[str], str]]:
    """Words of each command, behind `headrace`, and what it is shown to have said."""
    for block in _BLOCK.findall(PAGE):
        for screen in re.split(r"^\$ headrace ", block, flags=re.MULTILINE)[1:]:
            command, _, said = screen.partition("\n")
            yield shlex.split(command), said


def headings(said: str) -> list[list[str]]:
    """Of each table, the names of its columns."""
    return [line.split() for line in said.splitlines() if _HEADING.match(line)]


async def test_each_table_on_the_page_has_the_columns_of_today(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place(Say(400)).uri)
    await park(lane, "a")
    here = {"shop/orders": lane.channel.path[1:]}
    with_table = [(words, headings(said)) for words, said in screens() if headings(said)]
    assert {" ".join(words[:2]) for words, _ in with_table} == {
        "channel list",
        "subscription list",
        "report -A",
        "deadletter list",
    }
    for words, columns in with_table:
        ran = await cli(*(here.get(word, word) for word in words))
        assert headings(ran.ok().out) == columns, words


def test_each_finding_on_the_page_is_in_its_table() -> None:
    found = {
        code for words, said in screens() if words[0] == "doctor" for code in re.findall(r"\[([a-z-]+)\]$", said, re.M)
    }
    assert len(found) == 5
    assert {code for code in found if f"`{code}`" not in PAGE} == set()
