"""docs/comparison.md names the test behind each feature that it says Headrace has, and the test is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs/comparison.md").read_text(encoding="utf-8")
FEATURES, CASES = (
    TEXT.partition(start)[2].partition("\n#")[0] for start in ("## Knative's features", "### Knative's own cases")
)
DEFINED = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
}
# Of knative/eventing at 8cf4c4b6: what the suites of channels have about security.
OF_KNATIVE = {
    "AddressableOIDCConformance": 5,
    "AddressableAuthZConformance": 4,
    "DispatcherAuthenticatesRequestsWithOIDC": 1,
    "RotateDispatcherTLSCertificate": 1,
    "SubscriptionTLS": 1,
    "SubscriptionTLSTrustBundle": 1,
    "SubscriptionTLSWithAdditionalTrustBundle": 1,
    "AutoCreateEventTypesOnIMC": 1,
    "AutoCreateEventTypesOnSubscription": 1,
}


def rows(section: str) -> list[list[str]]:
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("row", rows(FEATURES), ids=lambda row: row[0][:60])
def test_what_headrace_has_is_shown_by_tests_and_what_it_has_not_by_none(row: list[str]) -> None:
    feature, *_, ours, shown = row
    assert len(row) == 6, feature
    assert ours.startswith(("yes", "no", "one fresh token"))
    named = re.findall(r"`(test_\w+)`", shown)
    assert bool(named) is not ours.startswith("no")
    assert [name for name in named if name not in DEFINED] == []


def test_there_are_features() -> None:
    assert len(rows(FEATURES)) >= 18


def test_each_case_of_knatives_is_there_with_a_test_of_ours_or_a_word_why_there_is_none() -> None:
    found: dict[str, int] = {}
    for case, ours in rows(CASES):
        suite = case.partition(":")[0]
        found[suite] = found.get(suite, 0) + 1
        named = re.findall(r"`(test_\w+)`", ours)
        assert named or ours.startswith("none: "), case
        assert [name for name in named if name not in DEFINED] == []
    assert found == OF_KNATIVE
