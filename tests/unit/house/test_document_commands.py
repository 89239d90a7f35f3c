"""Each command of the documents that needs another program is run by a test, or it is said here why not."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click
import pytest

from headrace_cli.commands import root

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/tutorials").glob("*.md"))]
_BLOCK = re.compile(r"^ *```(?P<kind>\w*) ?(?P<about>[^\n]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_TOOL = re.compile(r"(?:^|[|&;(] ?)(?:func|kn|helm|nats|kustomize|kubectl|promtool|kind|podman|docker) ")

# Where whole pages are run: the test compares what it runs with the page.
BY_PAGE = {
    "migration.md": ("tests/tools/test_migration_document.py", "tests/cli/test_migration.py"),
    "cluster.md": ("tests/cluster/test_install.py", "tests/cluster/test_nothing_is_left.py"),
    "kn-plugin.md": ("tests/tools/test_kn.py", "tests/unit/house/test_document_commands.py"),
}
# Blocks of docs/install.md, docs/rbac.md and docs/knative-security.md, by what stands behind their language.
BY_MARK = {
    "run": "tests/tools/test_install_document.py",
    "channel": "tests/tools/test_install_document.py",
    "func config": "tests/tools/test_func.py",
    "func run": "tests/tools/test_func.py",
    "func invoke": "tests/tools/test_func.py",
    "func deploy": "tests/tools/test_func_deploy.py",
    "makers": "tests/cluster/test_uninstall.py",
    "aside": "tests/cluster/test_uninstall.py",
    "in a namespace": "tests/cluster/test_scopes.py",
    "oidc": "tests/tools/test_security_document.py",
    "sender tokens": "tests/tools/test_security_document.py",
    "types": "tests/tools/test_security_document.py",
}
# What no machine of ours can run: no container engine, no kubelet.
NOT_RUN = {
    "podman build": "no container engine; tests/image builds the same file with buildah",
    "podman run": "no container engine; tests/image starts the same image with runc",
    "podman push": "no container engine",
    "kubectl -n nats-io port-forward": "no kubelet, which is what forwards",
}


def commands() -> Iterator[tuple[Path, str, str]]:
    """Page, mark of the block, line."""
    for page in PAGES:
        for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            # A command goes on in the next line behind a backslash.
            for line in re.sub(r"\\\n\s*", "", block["text"]).splitlines():
                if _TOOL.search(line.strip().removeprefix("$ ")):
                    yield page, block["about"], line.strip()


def test_every_command_is_run_or_it_is_said_why_not() -> None:
    found = list(commands())
    assert len(found) > 100
    unknown = [
        f"{page.name}: {line}"
        for page, mark, line in found
        if page.name not in BY_PAGE and mark not in BY_MARK and not line.startswith(tuple(NOT_RUN))
    ]
    assert unknown == []


def test_the_tests_and_the_exceptions_that_are_named_exist() -> None:
    for test in {*BY_MARK.values(), *(test for tests in BY_PAGE.values() for test in tests)}:
        assert (ROOT / test).is_file(), test
    lines = [line for _, _, line in commands()]
    assert all(any(line.startswith(start) for line in lines) for start in NOT_RUN)


def examples() -> Iterator[list[str]]:
    """The arguments of `kn jetstream` in every example, without what the shell makes of the rest."""
    for page, _, line in commands():
        if page.name == "kn-plugin.md":
            # A remark stands behind two spaces or more.
            words = shlex.shlex(re.split(r" {2,}", line)[0], posix=True, punctuation_chars=True)
            words.whitespace_split = True
            for shell, part in groupby(words, lambda word: set(word) <= set("|&>;")):
                if not shell and (found := list(part))[:2] == ["kn", "jetstream"]:
                    yield found[2:]


@pytest.mark.parametrize("arguments", list(examples()), ids=" ".join)
def test_every_example_is_a_command_that_the_parser_takes(arguments: list[str]) -> None:
    command: click.Command = root.tree()
    context: click.Context | None = None
    words = list(arguments)
    while isinstance(command, click.Group):
        context = click.Context(command, parent=context)
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        command = found
    command.make_context(command.name, words, parent=context)
