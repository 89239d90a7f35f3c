"""Wanted in spite of refused names: whatever a manifest says, nothing whose name is neither allowed nor there."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.channel import naming
from headrace.core.channel.naming import Naming
from headrace.core.channel.plan import Observed
from headrace.core.channel.reach import Reach
from headrace.core.channel.stream_config import wanted
from headrace.core.installation.tenants import Tenant
from headrace.core.manifest import manifest
from headrace.core.subject_pattern import results
from tests.support.functions.channels import channel, stream

ENTRIES = (Tenant.model_validate({"namespaces": ["*"], "subjects": ["legacy.a"], "streams": ["ORDERS"]}),)
SUBJECTS = st.sampled_from(["shop.seen", "legacy.a", "legacy.b", "$JS.API.X", "bill.x._knative", "_INBOX.>", "*.a"])
DESTINATIONS = SUBJECTS.filter(lambda one: "*" not in one) | st.sampled_from(["shop.by.$1", "{{partition(2,1)}}.x"])
MAPPINGS = st.fixed_dictionaries({"source": st.just("*.>"), "destination": DESTINATIONS})
ORIGINS = st.fixed_dictionaries(
    {"name": st.sampled_from(["KN_SHOP__A", "ORDERS", "KN_BILL__X", "KV_payroll"])},
    optional={
        "subjectTransforms": st.lists(MAPPINGS, max_size=1),
        "external": st.fixed_dictionaries({"apiPrefix": st.sampled_from(["$JS.hub.API", "legacy.a"])}),
    },
)
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "additionalSubjects": st.lists(SUBJECTS, max_size=3, unique=True),
        "sources": st.lists(ORIGINS, max_size=2),
        "republish": MAPPINGS,
        "subjectTransform": MAPPINGS,
    },
) | st.fixed_dictionaries({"mirror": ORIGINS})


def config_of(config: dict[str, Any]) -> dict[str, Any]:
    """The stream as NATS has it, where a channel with this configuration was made without any rule."""
    return dict(wanted(manifest.parse(channel(stream=stream(**config))), "default").config)


def judged(config: dict[str, Any], has: dict[str, Any] | None) -> Naming:
    spec = manifest.parse(channel(stream=stream(**config)))
    asked = wanted(spec, "default")
    found = naming.trespasses(spec.spec, asked, ENTRIES)
    return naming.judged(spec.spec, asked, found, Observed(has, None))


def forbidden(config: dict[str, Any]) -> list[str]:
    """The parts of a stream's configuration that its channel may not name, each as text; found in another way."""
    reach = Reach(wanted(manifest.parse(channel()), "default").place, ENTRIES)
    subjects = [(one, one) for one in config.get("subjects") or ()]
    for mapping in (config.get("republish"), config.get("subject_transform")):
        subjects += [(mapping["dest"], mapping)] if mapping else []
    found = [str(item) for one, item in subjects if reach.of_subject(one, results(one))]
    for origin in (*(config.get("sources") or ()), *([config["mirror"]] if config.get("mirror") else [])):
        named = [mapping["dest"] for mapping in origin.get("subject_transforms") or ()]
        outside = origin.get("external")
        if (
            reach.of_stream(origin["name"])
            or any(reach.of_subject(one, results(one)) for one in named)
            or (outside and reach.of_subject(outside["api"], f"{outside['api']}.>"))
        ):
            found.append(str(origin))
    return found


@given(CONFIGS, st.none() | CONFIGS)
def test_no_name_gets_in_that_is_neither_allowed_nor_there(config: dict[str, Any], before: dict[str, Any] | None):
    has = None if before is None else config_of(before)

    found = judged(config, has)

    if not found.stopped:
        assert set(forbidden(dict(found.wanted.config))) <= set(forbidden(has or {}))
    assert bool(found.refused or found.kept) is bool(forbidden(config_of(config)))
    told = found.condition("knative-eventing")
    assert (told is None) is not bool(found.refused or found.kept)


@given(CONFIGS)
def test_a_channel_that_exists_wants_no_change_by_its_own_manifest(config: dict[str, Any]):
    has = config_of(config)
    found = judged(config, has)
    assert found.refused == ()
    assert found.wanted.config == has


def told(**config: Any) -> str:
    """The condition's message."""
    found = judged(config, None).condition("knative-eventing")
    assert found is not None
    return found.message


@pytest.mark.parametrize(
    ("config", "opens"),
    [
        ({"republish": {"source": ">", "destination": "$JS.API.STREAM.DELETE.X"}}, "ask the server, in its own name"),
        ({"additionalSubjects": ["_INBOX_forward.>"]}, "read or forge answers"),
        ({"republish": {"source": ">", "destination": "headrace.wake.X"}}, "tell parts of Headrace"),
        ({"additionalSubjects": ["bill.x._knative"]}, "read or change what belongs to another channel or a bucket"),
        ({"sources": [{"name": "KV_payroll"}]}, "read or change what belongs to another channel or a bucket"),
        ({"mirror": {"name": "KN_BILL__X"}}, "read or change what belongs to another channel or a bucket"),
    ],
)
def test_a_line_that_opens_what_is_not_the_namespaces_says_what_it_opens(config: dict[str, Any], opens: str):
    before, _, line = told(**config).rpartition(": - ")

    assert f"(which lets every author there {opens}" in before
    assert yaml.safe_load(f"- {line}")[0]["namespaces"] == ["shop"]


def test_a_line_that_opens_nobodys_has_no_warning():
    assert "which lets" not in told(additionalSubjects=["legacy.b"])


@pytest.mark.parametrize("count", [1, 5, 20, 40, 256])
def test_the_line_is_whole_or_is_not_there(count: int):
    subjects = [f"legacy.{'x' * 20}.{each}" for each in range(count)]
    message = told(additionalSubjects=subjects)

    assert len(message) < 10_000
    begin = message.find("- {namespaces")
    if begin < 0:
        assert count > 20
        assert message.endswith(": an entry for shop with the words of the manifest")
    else:
        assert yaml.safe_load(message[begin:]) == [{"namespaces": ["shop"], "subjects": subjects}]
