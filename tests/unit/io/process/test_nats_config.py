"""Which of the mounted ConfigMaps says how NATS is reached."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.access import NatsAccess
from headrace.io.process.secret_names import SecretNamesReader
from tests.support.kube.mounts import Mount

NAMED, PROPOSED, OTHER = "nats://named:4222", "nats://proposed:4222", "nats://neither:4222"


def settings(directory: Path, name: str = "config-nats") -> NatsSettings:
    return NatsSettings(url=OTHER, config_dir=str(directory), config_name=name)


def url(directory: Path, name: str = "config-nats") -> str:
    return NatsAccess(settings(directory, name)).now().value.settings.url


def mount(root: Path, folder: str, key: str, text: str) -> Mount:
    return Mount(root / folder, **{key: text})


def choose(root: Path, name: str) -> Mount:
    return mount(root, "defaults", "jetstream-dispatcher-config", f"clusterDefault: {{configName: {name}}}")


@pytest.mark.parametrize("key", ["eventing-jetstream", "eventing-nats"])
@pytest.mark.parametrize("folder", ["", "named", "proposed"])
def test_each_counts_where_it_is_alone(tmp_path: Path, folder: str, key: str) -> None:
    mount(tmp_path, folder, key, f"url: {NAMED}")
    assert url(tmp_path) == NAMED


@pytest.mark.parametrize(
    ("name", "choice", "counts"),
    [
        pytest.param("config-nats", "", PROPOSED, id="the Go channel's, which is there for its own sake, comes last"),
        pytest.param("my-nats", "", NAMED, id="one that somebody has named comes first"),
        pytest.param("config-nats", "config-nats", NAMED, id="the default for the cluster chooses"),
        pytest.param("my-nats", "config-jetstream", PROPOSED, id="also the other one"),
        pytest.param("config-nats", "not-mounted", PROPOSED, id="but none that is not mounted"),
        pytest.param("config-nats", "[half", PROPOSED, id="and only where it can be read"),
        pytest.param("config-nats", "7", PROPOSED, id="as a name"),
    ],
)
def test_of_several_one_counts(tmp_path: Path, name: str, choice: str, counts: str) -> None:
    mount(tmp_path, "named", "eventing-nats", f"url: {NAMED}")
    mount(tmp_path, "proposed", "eventing-jetstream", f"url: {PROPOSED}")
    if choice:
        choose(tmp_path, choice)
    assert url(tmp_path, name) == counts


def test_one_that_is_chosen_and_not_there_leaves_it_to_the_variables(tmp_path: Path) -> None:
    mount(tmp_path, "named", "eventing-nats", f"url: {NAMED}")
    choose(tmp_path, "config-jetstream")
    assert url(tmp_path) == OTHER


def test_one_that_serves_another_purpose_is_none(tmp_path: Path) -> None:
    mount(tmp_path, "named", "eventing-nats", f"url: {NAMED}")
    mount(tmp_path, "proposed", "another-purpose", "url: nats://x")
    assert url(tmp_path) == NAMED


def test_an_edited_choice_counts_from_the_next_look_on(tmp_path: Path) -> None:
    mount(tmp_path, "named", "eventing-nats", f"url: {NAMED}")
    mount(tmp_path, "proposed", "eventing-jetstream", f"url: {PROPOSED}")
    access = NatsAccess(settings(tmp_path))
    before = access.now().value
    choose(tmp_path, "config-nats")
    after = access.now().value
    assert (before.settings.url, after.settings.url) == (PROPOSED, NAMED)
    assert before.print != after.print


@pytest.mark.parametrize("broken", ["clusterDefault: {configName: [half", "clusterDefault: {configName: 7}", "words"])
def test_a_choice_that_can_not_be_read_any_more_moves_nobody_to_another_nats(tmp_path: Path, broken: str) -> None:
    mount(tmp_path, "named", "eventing-nats", f"url: {NAMED}")
    mount(tmp_path, "proposed", "eventing-jetstream", f"url: {PROPOSED}")
    choice = choose(tmp_path, "config-nats")
    access, named = NatsAccess(settings(tmp_path)), SecretNamesReader(settings(tmp_path))
    before = access.now().value.settings.url, named.now().config_map
    choice.swap(**{"jetstream-dispatcher-config": broken})
    kept = access.now().value.settings.url, named.now().config_map
    choice.swap(**{"jetstream-dispatcher-config": "clusterDefault: {}"})
    taken_back = access.now().value.settings.url, named.now().config_map
    assert before == kept == (NAMED, "config-nats")
    assert taken_back == (PROPOSED, "config-jetstream")


def test_messages_name_the_config_map_that_counts(tmp_path: Path) -> None:
    mount(tmp_path, "named", "eventing-nats", "auth: {token: {secret: {name: theirs}}}")
    proposed = mount(tmp_path, "proposed", "eventing-jetstream", "auth: {token: {secret: {secretName: ours}}}")
    named = SecretNamesReader(settings(tmp_path))
    first = named.now()
    proposed.swap()
    second = named.now()
    assert (first.config_map, [one.secret for one in first.secrets]) == ("config-jetstream", ["ours"])
    assert (second.config_map, [one.secret for one in second.secrets]) == ("config-nats", ["theirs"])
    proposed.swap(**{"eventing-jetstream": "url: nonsense://a"})
    assert NatsAccess(settings(tmp_path, "my")).now().problem == ""
    broken = NatsAccess(settings(tmp_path))
    with pytest.raises(Exception, match="ConfigMap config-jetstream, key eventing-jetstream: url has"):
        broken.now()


def test_what_is_not_obeyed_is_told(tmp_path: Path) -> None:
    mount(tmp_path, "named", "eventing-nats", f"url: {NAMED}")
    mount(tmp_path, "proposed", "eventing-jetstream", f"url: {PROPOSED}")
    choose(tmp_path, "not-mounted")
    with capture_logs() as lines:
        NatsAccess(settings(tmp_path)).now()
    told = "\n".join(line["why"] for line in lines)
    assert "ConfigMap config-nats is not read beside config-jetstream" in told
    assert "is 'not-mounted', which is not mounted in the pods" in told
