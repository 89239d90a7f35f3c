"""The weight of a channel's settings, which NATS hands out in lists: for all streams at once, and for all consumers.

Each consumer has a copy of what its channel says for all of them, so a manifest of one megabyte could become one
gigabyte in NATS, in `reconcile` and in the operator (ADR 051). Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from headrace.core.channel.consumer import Row
from headrace.core.channel.stream_config import WantedStreams
from headrace.core.errors import InvalidSpec
from headrace.core.manifest.manifest import Spec
from headrace.core.plural import counted

# A list of streams has 256 in one message.
MOST_OF_STREAM = 32 * 1024
MOST_OF_CONSUMERS = 8 * 1024 * 1024


def check(spec: Spec, wanted: WantedStreams, rows: Iterable[Row]) -> None:
    """Refuse settings of the stream, or of all consumers together, that weigh too much.

    Raises:
        InvalidSpec: with what they weigh.
    """
    stream = len(json.dumps(dict(wanted.config)))
    if stream > MOST_OF_STREAM:
        field = "spec.stream.config"
        problem = f"has {stream} bytes in NATS, and {MOST_OF_STREAM} are the most"
        raise InvalidSpec(f"{field} {problem}: shorten metadata, or name fewer subjects and sources", field=field)
    template = spec.consumer_config_template
    # An adopted stream's consumers have its subjects as filters.
    subjects = template.subjects or (spec.stream.config.additional_subjects if spec.stream.override_name else ())
    shared = len(json.dumps([template.metadata, subjects]))
    weights = [shared + len(row.subscriber.to_json()) for row in rows if row.subscriber is not None]
    if sum(weights) > MOST_OF_CONSUMERS:
        field = "spec.consumerConfigTemplate"
        problem = (
            f"and spec.delivery have {sum(weights)} bytes in the {counted(len(weights), 'consumer')} of this channel"
        )
        advice = f"{MOST_OF_CONSUMERS} are the most: shorten metadata, filterSubjects or CACerts"
        raise InvalidSpec(f"{field} {problem}, and {advice}", field=field)
