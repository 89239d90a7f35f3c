"""The documents are true where a test can tell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.generate import documents

ROOT = Path(__file__).parents[3]
PAGES = documents.pages()
ADRS = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))


@pytest.mark.parametrize("adr", ADRS, ids=lambda adr: adr.stem)
def test_a_decision_says_when_what_and_what_would_change_it(adr: Path) -> None:
    text = adr.read_text()
    number = adr.stem[:3]
    title = text.splitlines()[0]
    assert title.startswith(f"# {number} ")
    assert re.search(r"^Date: \d{4}-\d\d-\d\d\. Status: (accepted|superseded by \d{3})\.$", text, re.MULTILINE)
    for part in ("**Decision.**", "**Consequences.**", "**What would change our mind.**"):
        assert part in text
    assert (
        f"| [{number}]({adr.name}) | {title.removeprefix(f'# {number} ')} |" in (adr.parent / "README.md").read_text()
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_what_is_generated_in_a_document_is_what_the_code_says(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PAGES[path], "run `task docs`"


@pytest.mark.parametrize("document", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: p.name)
def test_links_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", document.read_text())
    missing = [target for target in targets if "://" not in target and not (document.parent / target).exists()]
    assert missing == []


def test_the_readme_is_short_and_opens_with_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 150
    commands = [line.split("#")[0].strip() for line in lines[:12] if line.startswith("uvx")]
    assert commands == ["uvx --from go-task-bin task demo", "uvx --from go-task-bin task test"]


def test_every_task_that_a_document_names_exists() -> None:
    tasks = set(re.findall(r"^  ([a-z:-]+):$", (ROOT / "Taskfile.yml").read_text(), re.MULTILINE))
    named = {
        name
        for document in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for name in re.findall(r"`task ([a-z:-]+)", document.read_text())
    }
    assert named <= tasks


def test_every_condition_and_reason_is_in_the_list() -> None:
    said = (ROOT / "docs/conditions.md").read_text()
    core = ROOT / "functions/headrace/core"
    words = {
        word
        for module in (
            "channel/status",
            "channel/plan",
            "channel/storage_share",
            "channel/republish_ring",
            "channel/health",
            "channel/dead_letter",
            "channel/peer",
            "manifest/obeyed",
        )
        for word in re.findall(r'"((?:[A-Z][a-z]+){2,})"', (core / f"{module}.py").read_text())
    }

    assert "StreamNotOurs" in words
    assert {word for word in words if f"`{word}`" not in said} == set()
