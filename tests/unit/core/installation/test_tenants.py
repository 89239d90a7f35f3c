"""The administrator's list of tenants: which entries hold for a namespace, and how a slip in the list is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from headrace.core.errors import Misconfigured
from headrace.core.installation import tenants
from headrace.core.installation.function_bounds import FunctionBounds
from headrace.core.installation.tenants import Tenants, stands_for

LIST = """
- {namespaces: [shop, "team-*"], subjects: [legacy.orders.>]}
- namespaces: ["*"]
  streams: ["AUDIT_*"]
"""


def read(text: str) -> Tenants:
    return tenants.parse({"tenants": text})


def test_all_entries_that_match_a_namespace_hold_for_it_together():
    known = read(LIST)

    assert [one.subjects for one in known.of("shop")] == [("legacy.orders.>",), ()]
    assert [one.streams for one in known.of("team-a")] == [(), ("AUDIT_*",)]
    assert [one.streams for one in known.of("other")] == [("AUDIT_*",)]
    assert known.condition is None


def test_who_may_read_answers_is_said_by_any_of_the_entries():
    known = read('[{namespaces: [shop]}, {namespaces: ["sh*"], errorData: true}, {namespaces: [a], errorData: false}]')

    assert [one.error_data for one in known.of("shop")] == [False, True]
    assert [one.error_data for one in known.of("a")] == [False]


@pytest.mark.parametrize("data", [{}, {"tenants": ""}, {"tenants": "# - {namespaces: [shop]}"}])
def test_without_a_list_nobody_has_an_entry(data: dict[str, str]):
    assert tenants.parse(data) == Tenants()


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("shop", "shop", True),
        ("shop", "shop-a", False),
        ("team-*", "team-a", True),
        ("team-*", "team-", True),
        ("*-prod", "shop-prod", True),
        ("a*b*c", "a-b-b-c", True),
        ("*", "anything", True),
        ("s.op", "shop", False),
        ("s[h]op", "shop", False),
        ("shop", "shop\n", False),
    ],
)
def test_only_the_asterisk_is_a_wildcard(pattern: str, name: str, matches: bool):
    assert stands_for(pattern, name) is matches


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("shop: {}", 'it is {"shop": {}}: write a list, as `- {namespaces: [shop], subjects: [legacy.orders]}`'),
        ("- [half", "it is not YAML (line 1, column 8): expected ',' or ']', but got '<stream end>'"),
        ("- {subjects: [a]}", "[0].namespaces is missing: give it"),
        ("- {namespaces: []}", "[0].namespaces is []: it should have at least 1"),
        ("- {namespaces: [Shop]}", "[0].namespaces[0] is 'Shop': it should be a namespace, in which * stands for"),
        ("- {namespaces: [shop], subject: [a]}", "[0].subject is unknown: check its spelling"),
        ("- {namespaces: [shop], subjects: [a b]}", "[0].subjects[0] is 'a b': it should be a NATS subject: "),
        ("- {namespaces: [shop], streams: [A.B]}", "[0].streams[0] is 'A.B': it should be the name of a stream, in"),
    ],
)
def test_a_slip_is_told_with_its_place_and_its_value(text: str, says: str):
    with pytest.raises(Misconfigured) as wrong:
        read(text)
    assert str(wrong.value).startswith(f"ConfigMap config-ch-jetstream-defaults, key tenants: {says}")


def test_a_broken_list_is_a_condition_of_severity_info():
    known = Tenants(read(LIST).entries, problem="[0].namespaces is missing: give it").condition
    assert known is not None
    assert (known.type, known.reason, known.informative) == ("TenantsRead", "TenantsBroken", True)
    assert known.message == "[0].namespaces is missing: give it; the last good list holds"


def test_bounds_of_functions_have_defaults_and_the_last_entry_that_says_one_counts():
    known = read(
        """
- {namespaces: ["*"], functions: {most: 5, maxScale: 2, template: [tolerations]}}
- {namespaces: [shop], functions: {most: 500, resources: {cpu: 4, memory: 8Gi}}}
"""
    )

    assert known.bounds("shop") == FunctionBounds(500, 2, {"cpu": "4", "memory": "8Gi"}, frozenset({"tolerations"}))
    assert known.bounds("other") == FunctionBounds(5, 2, {"cpu": "2", "memory": "1Gi"}, frozenset({"tolerations"}))
    assert Tenants().bounds("shop") == FunctionBounds(100, 20, {"cpu": "2", "memory": "1Gi"}, frozenset())


def test_what_a_namespace_may_reserve_is_said_for_each_storage_by_the_last_entry():
    known = read(
        """
- {namespaces: ["*"], maxBytes: {file: 5Gi, memory: 100Mi}}
- {namespaces: [shop], maxBytes: {file: 2000000000}}
"""
    )

    assert known.storage("shop") == {"file": "2000000000", "memory": "100Mi"}
    assert known.storage("other") == {"file": "5Gi", "memory": "100Mi"}
    assert Tenants().storage("shop") == {}


@pytest.mark.parametrize(
    ("bound", "says"),
    [
        ("{disk: 5Gi}", "[0].maxBytes.disk"),
        ("{file: lots}", "[0].maxBytes.file is 'lots': it should be a quantity, as 2, 500m or 1Gi"),
        ("{file: 0}", "[0].maxBytes.file is 0: it should be a quantity, as 2, 500m or 1Gi"),
        ("5Gi", "[0].maxBytes is '5Gi'"),
    ],
)
def test_a_slip_in_what_may_be_reserved_is_told_by_its_place(bound: str, says: str):
    with pytest.raises(Misconfigured) as refused:
        read(f"- {{namespaces: [shop], maxBytes: {bound}}}")

    assert f"key tenants: {says}" in str(refused.value)


@pytest.mark.parametrize(
    ("functions", "says"),
    [
        ("{maxScale: 0}", "[0].functions.maxScale is 0"),
        ("{scale: 3}", "[0].functions.scale is unknown"),
        (
            "{resources: {cpu: lots}}",
            "[0].functions.resources.cpu is 'lots': it should be a quantity, as 2, 500m or 1Gi",
        ),
        ("{resources: {cpu: .nan}}", "[0].functions.resources.cpu is nan: it should be a quantity, as 2, 500m or 1Gi"),
        ("{resources: {cpu: '1.2.3'}}", "[0].functions.resources.cpu is '1.2.3'"),
        ("{template: [image]}", "[0].functions.template[0] is 'image'"),
    ],
)
def test_a_slip_in_a_bound_is_told_by_its_place(functions: str, says: str):
    with pytest.raises(Misconfigured) as refused:
        read(f"- {{namespaces: [shop], functions: {functions}}}")

    assert f"key tenants: {says}" in str(refused.value)


def test_the_list_in_the_document_can_be_read():
    document = (Path(__file__).parents[4] / "docs" / "install.md").read_text(encoding="utf-8")
    block = next(one for one in document.split("```yaml\n")[1:] if "tenants: |" in one).split("```")[0]
    known = tenants.parse(yaml.safe_load(block)["data"])
    assert [one.streams for one in known.of("payroll")] == [("KV_payroll",)]
    assert [one.subjects for one in known.of("team-a")] == [("legacy.orders", "audit.>")]
