"""The condition about a right that the operator lacks, with the line that gives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.channel import rights

ROLE = "headrace-operator-functions"


def test_where_nothing_is_lacking_there_is_no_condition() -> None:
    assert rights.condition({}) is None


def test_the_page_on_rights_has_the_same_line() -> None:
    page = (Path(__file__).parents[4] / "docs" / "rbac.md").read_text(encoding="utf-8")

    _, _, line = rights.sentence("shop", "system:serviceaccount:knative-eventing:headrace-operator").partition(": ")

    assert f"\n{line}\n" in page


@pytest.mark.parametrize(
    ("account", "subject"),
    [
        (
            "system:serviceaccount:knative-eventing:headrace-operator",
            "--serviceaccount=knative-eventing:headrace-operator",
        ),
        ("system:serviceaccount:eventing:headrace", "--serviceaccount=eventing:headrace"),
        ("ann@example.com", "--user=ann@example.com"),
    ],
)
def test_the_message_has_the_line_for_the_account_that_asked(account: str, subject: str) -> None:
    found = rights.condition({"shop": account})

    assert found is not None
    assert (found.type, found.reason, found.informative) == ("RightsGranted", "RoleBindingMissing", True)
    assert found.message == (
        "the operator may not make or change functions in namespace shop; what runs there goes on as it is. Whoever "
        f"has its rights there may give them: kubectl -n shop create rolebinding {ROLE} --clusterrole={ROLE} {subject}"
    )
