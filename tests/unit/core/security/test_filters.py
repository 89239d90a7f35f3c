"""Filters as Knative writes them: what passes, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import InvalidSpec
from headrace.core.security import filters

EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "com.shop.created", "tier": "gold"}


def passes(*given: Any) -> bool:
    tree = filters.parsed([*given], "spec.filters")
    # It goes through the security document.
    return tree is None or filters.passing(json.loads(json.dumps(tree)))(EVENT)


@pytest.mark.parametrize(
    ("given_", "then"),
    [
        pytest.param([], True, id="no filter"),
        pytest.param([{"exact": {"type": "com.shop.created"}}], True, id="exact"),
        pytest.param([{"exact": {"type": "com.shop"}}], False, id="not exact"),
        pytest.param([{"exact": {"type": "com.shop.created", "tier": "silver"}}], False, id="each attribute counts"),
        pytest.param([{"prefix": {"type": "com.shop."}}], True, id="prefix"),
        pytest.param([{"suffix": {"type": ".created"}}], True, id="suffix"),
        pytest.param([{"suffix": {"type": "com."}}], False, id="no suffix"),
        pytest.param([{"prefix": {"subject": "a"}}], False, id="an attribute that is not there"),
        pytest.param([{"not": {"prefix": {"subject": "a"}}}], True, id="its opposite"),
        pytest.param([{"any": [{"exact": {"id": "2"}}, {"exact": {"id": "1"}}]}], True, id="any"),
        pytest.param([{"any": [{"exact": {"id": "2"}}, {"exact": {"id": "3"}}]}], False, id="none"),
        pytest.param([{"all": [{"exact": {"id": "1"}}, {"exact": {"id": "2"}}]}], False, id="not all"),
        pytest.param([{"exact": {"id": "1"}}, {"exact": {"tier": "silver"}}], False, id="a list means all"),
        pytest.param([{"cesql": "type LIKE 'com.shop.%' AND tier = 'gold'"}], True, id="cesql"),
        pytest.param([{"cesql": "missing = 'x'"}], False, id="cesql with an error"),
        pytest.param(
            [{"not": {"cesql": "missing = 'x'"}}], True, id="the opposite of one with an error, as in Knative"
        ),
        pytest.param([{}, {"not": {}}, {"all": []}, {"cesql": ""}], True, id="without a dialect, as in Knative"),
        pytest.param([{}, {"exact": {"id": "2"}}], False, id="one of two without"),
        pytest.param([{"exact": {}, "prefix": {"id": "1"}}], True, id="an empty dialect is none"),
    ],
)
def test_passes(given_: list[Any], *, then: bool) -> None:
    assert passes(*given_) is then


def _nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"exact": {"id": "1"}}
    for _ in range(depth):
        found = {"not": found}
    return found


@pytest.mark.parametrize(
    ("given_", "field", "words"),
    [
        pytest.param("type = 'a'", "spec.filters", "give a list of filters", id="no list"),
        pytest.param([5], "spec.filters[0]", "is 5: give an object with one of exact, prefix", id="no object"),
        pytest.param([{"sql": "a"}], "spec.filters[0]", "spec.filters[0].sql is no dialect", id="unknown dialect"),
        pytest.param(
            [{"exact": {"id": "1"}, "cesql": "TRUE"}], "spec.filters[0]", "has exact and cesql: give each", id="two"
        ),
        pytest.param([{"exact": 5}], "spec.filters[0].exact", "give attributes and their values", id="no attributes"),
        pytest.param(
            [{"any": [{"prefix": {"Type": "a"}}]}],
            "spec.filters[0].any[0].prefix",
            "has 'Type'",
            id="a name that is none",
        ),
        pytest.param([{"suffix": {"id": ""}}], "spec.filters[0].suffix", "give a text that is not empty", id="empty"),
        pytest.param([{"exact": {"id": 1}}], "spec.filters[0].exact", "is 1: give a text", id="no text"),
        pytest.param(
            [{"cesql": "a = "}], "spec.filters[0].cesql", "which CESQL can't read: the end at character 5", id="cesql"
        ),
        pytest.param([{"cesql": {"a": 1}}], "spec.filters[0].cesql", "give an expression of CESQL", id="no expression"),
        pytest.param([_nested(40)], "spec.filters[0]" + ".not" * 32, "at most 32 are read", id="too deep"),
        pytest.param([_nested(900)], "spec.filters[0]" + ".not" * 32, "at most 32 are read", id="far too deep"),
    ],
)
def test_what_cannot_be_obeyed_is_refused(given_: Any, field: str, words: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        filters.parsed(given_, "spec.filters")
    assert (refused.value.field, words in str(refused.value)) == (field, True)


_LEAVES = st.builds(
    lambda dialect, name, value: {dialect: {name: value}},
    st.sampled_from(["exact", "prefix", "suffix"]),
    st.sampled_from(["id", "tier", "other"]),
    st.sampled_from(["1", "g", "d", "gold"]),
)
_FILTERS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda one: {"not": one}, inner),
        st.builds(lambda word, some: {word: some}, st.sampled_from(["all", "any"]), st.lists(inner, min_size=1)),
    ),
    max_leaves=8,
)


def _by_hand(given: dict[str, Any]) -> bool:
    ((dialect, inner),) = given.items()
    match dialect:
        case "not":
            return not _by_hand(inner)
        case "all":
            return all(map(_by_hand, inner))
        case "any":
            return any(map(_by_hand, inner))
    ((name, value),) = inner.items()
    found = EVENT.get(name)
    return (
        found is not None
        and {
            "exact": found == value,
            "prefix": found.startswith(value),
            "suffix": found.endswith(value),
        }[dialect]
    )


@given(_FILTERS)
def test_nested_filters_pass_what_logic_says(given: dict[str, Any]) -> None:
    assert passes(given) is _by_hand(given)


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(filters.DIALECTS), st.text(max_size=3)), inner, max_size=3),
    ),
    max_leaves=10,
)


@given(_JSON)
def test_whatever_stands_there_is_read_or_refused(given: Any) -> None:
    try:
        tree = filters.parsed(given, "spec.filters")
    except InvalidSpec:
        return
    if tree is not None:
        assert filters.cost(tree) > 0
        assert filters.passing(tree)(EVENT) in (True, False)
