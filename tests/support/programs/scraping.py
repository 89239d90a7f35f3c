"""A `/metrics` as Prometheus would read it: by its own client's parser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.support.http.sending import send


@dataclass(frozen=True)
class Scrape:
    """One answer.

    Attributes:
        kinds: type by family, as the text names them.
    """

    text: str
    samples: tuple[Sample, ...]
    kinds: Mapping[str, str]

    def value(self, name: str, **labels: str) -> float:
        """The sum of all samples of that name that have these labels; fails where there is none."""
        found = [one.value for one in self.samples if one.name == name and labels.items() <= one.labels.items()]
        assert found, f"no {name} with {labels} in:\n{self.text}"
        return sum(found)

    def has(self, name: str, **labels: str) -> bool:
        return any(one.name == name and labels.items() <= one.labels.items() for one in self.samples)

    def labels(self, name: str) -> set[str]:
        """The labels that samples of that name have."""
        return {label for one in self.samples if one.name == name for label in one.labels}


async def scrape(port: int) -> Scrape:
    """What `/metrics` on this port tells now."""
    answer = await send(f"http://127.0.0.1:{port}/metrics", method="GET")
    assert answer.status == 200, answer
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return read(answer.body.decode())


def read(text: str) -> Scrape:
    families = list(text_string_to_metric_families(text))
    return Scrape(
        text,
        tuple(sample for family in families for sample in family.samples),
        {family.name: family.type for family in families},
    )
