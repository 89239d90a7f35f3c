"""No option is passed over: each has an effect whatever else is given, or is refused where it would have none."""

from __future__ import annotations

import click
import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace_cli.access import place, session
from tests.support.laptop.cli import run
from tests.unit.cli.test_words import VERBS

SHARED = {"help", "output", "yes", "dry_run", "nats", "namespace", "all_namespaces", "cluster", "kubeconfig", "context"}
WANTED = {"types", "sources", "attributes"}
STARTS = {"sequence", "since", "last"}
FILTERS = {*WANTED, "subscription", "reason", "older_than", "newer_than"}

# Options that have an effect beside all others, or contradict some: of what contradicts each other, both are named.
DECIDED: dict[tuple[str, ...], set[str]] = {
    ("up",): {"files", "listen", "data", "nats_port", "idle_seconds", "status_file", "metrics", "log_level"},
    ("channel", "list"): set(),
    ("channel", "describe"): set(),
    ("channel", "create"): {
        "replicas", "storage", "retention", "discard", "max_age", "max_bytes", "max_messages", "duplicate_window",
        "stream", "annotations",
    },
    ("channel", "delete"): set(),
    ("subscription", "list"): {"channel"},
    ("subscription", "describe"): {"channel"},
    ("subscription", "create"): {
        "channel", "uri", "reply_uri", "dead_letter_uri", "retry", "backoff_delay", "backoff_policy", "timeout",
    },
    ("subscription", "pause"): {"channel", "for_", "until"},
    ("subscription", "resume"): {"channel"},
    ("subscription", "reset"): {"channel", "to_sequence", "to_time", "all", "new"},
    ("subscription", "delete"): {"channel"},
    ("send",): {
        "type", "source", "id", "subject", "dataschema", "named", "data", "fields", "content_type", "file", "new_ids",
        "count", "rate", "mode", "via", "url",
    },
    ("tail",): {*STARTS, *WANTED, "count"},
    ("peek",): {*STARTS, *WANTED, "limit"},
    ("deadletter", "list"): {*FILTERS, "sunk", "summary", "limit"},
    ("deadletter", "show"): set(),
    ("deadletter", "replay"): {*FILTERS, "all", "to_channel", "to_uri", "rate", "run"},
    ("deadletter", "discard"): {*FILTERS, "all", "save"},
    ("replay",): {
        *WANTED, "sequence", "since", "from_start", "until_sequence", "until", "to_subscription", "to_channel",
        "to_same_channel", "to_uri", "rate", "run", "checkpoint",
    },
    ("report",): {"interval", "watch"},
    ("check",): {"pending", "unsettled", "parked", "sunk", "used", "stalled", "prometheus"},
    ("doctor",): {"monitor"},
    ("step-down",): {"subscription"},
    ("purge",): {"until_sequence", "older_than", "keep", "subject", "all"},
    ("rm-event",): {"no_erase"},
    ("backup",): {"again"},
    ("restore",): {"verify"},
    ("bench",): {"events", "size", "keys", "parallel", "rate", "publish_only", "wait", "url"},
    ("convert",): {"files", "suffix", "strict"},
    ("completion",): set(),
    ("hand-back",): {"pull", "force"},
}  # fmt: skip

REFUSED = [
    ("subscription create b --channel o --uri http://x/ --backoff-policy linear", "--backoff-policy"),
    ("subscription create b --channel o --uri http://x/ --backoff-delay PT1S", "--backoff-delay"),
    ("subscription create b --channel o --uri http://x/ --backoff-delay PT1S --retry 0", "--backoff-delay"),
    ("subscription create shop/b -n other --channel o --uri http://x/", "--namespace"),
    ("subscription list --channel orders -A", "--all-namespaces"),
    ("subscription list --nats nats://x --cluster", "--nats"),
    ("subscription pause b --for 1h --until 2030-01-01T00:00:00Z", "--until"),
    ("subscription reset b --all --new", "--new"),
    ("channel list -A -n shop", "--namespace"),
    ("channel list --nats nats://x --context prod", "--nats"),
    ("channel describe orders --nats nats://x --kubeconfig f", "--nats"),
    ("channel create orders --nats nats://x --cluster", "--nats"),
    ("channel delete orders --nats nats://x --cluster", "--nats"),
    ("send shop/orders -n other --type t", "--namespace"),
    ("send orders --type t --url http://x/ --nats nats://x", "--nats"),
    ("send orders --type t --url http://x/ --via nats", "--via"),
    ("send orders --type t --new-ids", "--new-ids"),
    ("send orders --type t --data x --field a=1 --url http://127.0.0.1:1/", "--field"),
    ("send orders -f x --count 3", "--count"),
    ("tail orders --since 1h --last 3", "--last"),
    ("peek orders --sequence 1 --since 1h", "--since"),
    ("deadletter list orders -A", "--all-namespaces"),
    ("deadletter list --summary --limit 3", "--limit"),
    ("deadletter replay orders 17 --all", "--all"),
    ("deadletter replay orders 17 --type t", "--type"),
    ("deadletter replay orders --all --reason x", "--all"),
    ("deadletter replay orders 17 --to-uri http://x/ --run r", "--run"),
    ("deadletter replay orders 17 --to-uri http://x/ --to-channel o", "--to-uri"),
    ("deadletter discard orders 17 --older-than 1d", "--older-than"),
    ("deadletter discard orders --all --subscription b", "--all"),
    ("replay orders --from-start --since 1h --to-subscription b", "--from-start"),
    ("replay orders --from-start --to-subscription b --to-same-channel", "--to-same-channel"),
    ("replay orders --from-start --to-uri http://x/ --run r", "--run"),
    ("replay orders --sequence 1 --since 1h --to-uri http://x/", "--since"),
    ("replay orders --from-start --until-sequence 1 --until 1h --to-uri http://x/", "--until"),
    ("report orders -A", "--all-namespaces"),
    ("check orders -A", "--all-namespaces"),
    ("doctor orders -A", "--all-namespaces"),
    ("purge orders --all --subject s", "--all"),
    ("purge orders --keep 1 --older-than 1d", "--keep"),
    ("bench orders --publish-only --wait 3", "--wait"),
    ("hand-back orders -A", "--all-namespaces"),
    ("hand-back orders --cluster --pull", "--pull"),
    ("up -f x --nats nats://x --data d", "--data"),
    ("up -f x --nats nats://x --nats-port 4222", "--nats-port"),
]

OBEYED = [
    "channel list -n shop",
    "channel list --nats nats://127.0.0.1:1",
    "send shop/orders -n shop --type t",
    "deadletter discard orders 17 --yes --dry-run",
    "deadletter replay orders 17 --run r --rate 3 --dry-run",
    "deadletter list --limit 3",
    "bench orders --wait 3",
    "replay orders --since 1h --to-channel o --to-same-channel --run r",
]


NOWHERE = place.Place(NatsSettings(url="nats://127.0.0.1:1"), None, "a test")


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_of_every_option_it_was_decided_what_it_is_beside_the_others(words: tuple[str, ...]) -> None:
    options = {each.name for each in VERBS[words].params if isinstance(each, click.Option)}
    assert options - SHARED == DECIDED[words]


@pytest.mark.parametrize(("command", "option"), REFUSED)
def test_what_would_have_no_effect_is_refused(command: str, option: str) -> None:
    ran = run(*command.split())
    assert (ran.status, ran.out) == (2, "")
    assert option in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("command", OBEYED)
def test_what_has_one_is_not(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CONNECT_SECONDS", 0.1)
    monkeypatch.setattr(place, "find", lambda _: NOWHERE)
    assert "no NATS at" in run(*command.split()).err


@pytest.mark.parametrize(
    ("options", "delivery"),
    [
        ("--retry 3", {"retry": 3}),
        ("--retry 3 --backoff-policy linear", {"retry": 3, "backoffDelay": "PT0.2S", "backoffPolicy": "linear"}),
        ("--retry 3 --backoff-delay PT1S", {"retry": 3, "backoffDelay": "PT1S", "backoffPolicy": "exponential"}),
    ],
)
def test_a_back_off_is_written_whole(options: str, delivery: dict[str, object]) -> None:
    """Knative's other channels pass over a policy without a delay, and over a delay without a policy."""
    ran = run(*f"subscription create b --channel o --uri http://x/ -o json {options}".split()).ok()
    assert ran.json["spec"]["delivery"] == delivery
