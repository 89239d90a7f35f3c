"""The statement of how an image was made has the form that SLSA's verifiers read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from infra.image import provenance

DIGEST, BASE = "sha256:" + "a" * 64, "sha256:" + "b" * 64
BUILD = provenance.Build(
    commit="c" * 40,
    source="git+https://git.example/headrace",
    base=f"python:3.13-slim@{BASE}",
    epoch=1_700_000_000,
    files={"uv.lock": "d" * 64},
    builder="https://ci.example/runs/1",
    tools={"buildah": "1.28.2"},
    began=datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC),
    ended=datetime(2026, 11, 29, 12, 2, 0, tzinfo=UTC),
)


def test_it_names_the_image_by_digest_and_all_that_took_part() -> None:
    found = provenance.statement("registry.example/headrace", DIGEST, BUILD, "e" * 64)
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["subject"] == [{"name": "registry.example/headrace", "digest": {"sha256": "a" * 64}}]
    assert found["predicateType"] == "https://slsa.dev/provenance/v1"
    definition, details = found["predicate"]["buildDefinition"], found["predicate"]["runDetails"]
    assert definition["externalParameters"]["buildArgs"] == {"DIGEST": f"@{BASE}", "SOURCE_DATE_EPOCH": 1_700_000_000}
    assert definition["resolvedDependencies"] == [
        {"name": "the source", "uri": "git+https://git.example/headrace", "digest": {"gitCommit": "c" * 40}},
        {"name": "python:3.13-slim", "digest": {"sha256": "b" * 64}},
        {"name": "uv.lock", "digest": {"sha256": "d" * 64}},
    ]
    assert details["builder"] == {"id": "https://ci.example/runs/1", "version": {"buildah": "1.28.2"}}
    assert details["metadata"] == {"startedOn": "2026-11-29T12:00:00Z", "finishedOn": "2026-11-29T12:02:00Z"}
    assert details["byproducts"][0]["digest"] == {"sha256": "e" * 64}


def test_a_base_that_was_made_on_the_machine_has_no_digest() -> None:
    found = provenance.statement("headrace", DIGEST, replace(BUILD, base="python:3.13-slim", source=""), "e" * 64)
    source, base, _ = found["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert base == {"name": "python:3.13-slim"}
    assert source == {"name": "the source", "digest": {"gitCommit": "c" * 40}}
    assert found["predicate"]["buildDefinition"]["externalParameters"]["buildArgs"]["DIGEST"] == ""
