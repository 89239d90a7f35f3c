"""Files that people mount, and the harm that they must not do to their reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trustme

from headrace.core.errors import Misconfigured
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.access import NatsAccess
from headrace.io.process.mount import LastGood

KEY = "eventing-jetstream"


def access(directory: Path) -> NatsAccess:
    return NatsAccess(NatsSettings.model_validate({"NATS_URL": "nats://first:4222", "NATS_CONFIG_DIR": str(directory)}))


def test_a_bundle_of_cas_may_have_remarks_in_any_language(tmp_path: Path) -> None:
    pem = f"# Autorit\u00e0 \u4e2d\n{trustme.CA().cert_pem.bytes().decode()}"
    (tmp_path / KEY).write_text(json.dumps({"url": "nats://h", "tls": {"caBundle": pem}}))

    entry = access(tmp_path).now().value

    assert entry.tls is not None
    assert entry.tls.cert_store_stats()["x509_ca"] == 1


@pytest.mark.parametrize(
    "text",
    ["url: !!int ''", 'url: "nats://a\\ud800"', "url: !!timestamp x", "[" * 5000],
    ids=["an integer without digits", "half of a surrogate pair", "no time", "deep"],
)
def test_whatever_is_mounted_the_last_good_one_counts(tmp_path: Path, text: str) -> None:
    (tmp_path / KEY).write_text("url: nats://good:4222")
    found = access(tmp_path)
    assert found.now().problem == ""

    (tmp_path / KEY).write_text(text)

    reading = found.now()
    assert (reading.value.settings.url, bool(reading.problem)) == ("nats://good:4222", True)
    with pytest.raises(Misconfigured):
        access(tmp_path).now()


def test_a_link_that_leads_to_itself_ends_nobody(tmp_path: Path) -> None:
    (tmp_path / KEY).write_text("url: nats://good:4222")
    found = access(tmp_path)
    assert found.now().problem == ""

    (tmp_path / "..data").symlink_to("..data")

    assert found.now().value.settings.url == "nats://good:4222"


def test_an_error_that_nobody_foresaw_is_told_without_its_words() -> None:
    good = [True]

    def read() -> str:
        if good.pop():
            return "value"
        raise LookupError("the secret itself")

    last = LastGood(read)
    assert last.now().value == "value"
    good.append(False)

    reading = last.now()

    assert reading.value == "value"
    assert "LookupError" in reading.problem
    assert "secret itself" not in reading.problem
