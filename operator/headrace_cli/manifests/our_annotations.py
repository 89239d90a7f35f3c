"""Our own annotations in a manifest file, read strictly: otherwise a typo in one would mean nothing, in silence.

This module knows which objects may bear which annotation; what the values mean is `headrace.core`'s. Called by
`headrace_cli.laptop.file_channels` and `headrace_cli.laptop.resolver`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from headrace.core.delivery import order_spec, placement_spec, scale_spec
from headrace.core.delivery.order_spec import OrderSpec
from headrace.core.errors import InvalidSpec
from headrace.core.manifest.manifest import RETAIN
from headrace.core.nats.stream import PREFIX
from headrace_cli.manifests.documents import Document

OF_BOTH = (order_spec.DELIVERY_ORDER, order_spec.ORDER_KEY, scale_spec.LAG_THRESHOLD, scale_spec.MAX_SCALE)
OF_CHANNEL = (RETAIN,)
# These say where functions run and what wakes them in a cluster; on a laptop both are fixed: `receive` always runs.
NOT_OBEYED = (placement_spec.RUNTIME, placement_spec.ISOLATION, placement_spec.KEDA, scale_spec.WAKE)


def of_channel(document: Document, annotations: Mapping[str, str]) -> None:
    """Check a channel's annotations.

    Raises:
        InvalidSpec: one is not known, or its value makes no sense.
    """
    _refuse_strange(document, annotations, (*OF_BOTH, *OF_CHANNEL))
    _check_values(document, annotations, None)


def of_subscription(document: Document, annotations: Mapping[str, str], default: OrderSpec) -> dict[str, str]:
    """The annotations of a Subscription that its entry in the channel takes over.

    Args:
        default: the order of the channel.

    Raises:
        InvalidSpec: one is not known here, or its value makes no sense.
    """
    for name in OF_CHANNEL:
        if name in annotations:
            field = f"metadata.annotations[{name}]"
            raise document.fault(f"{field} counts on a channel only: write it there", field=field)
    _refuse_strange(document, annotations, OF_BOTH)
    ours = {name: text for name, text in annotations.items() if name in OF_BOTH}
    _check_values(document, ours, default)
    return ours


def _refuse_strange(document: Document, annotations: Mapping[str, str], known: tuple[str, ...]) -> None:
    for name in annotations:
        if name.startswith(PREFIX) and name not in known and name not in NOT_OBEYED:
            field = f"metadata.annotations[{name[:80]}]"
            # All annotations share the prefix, which would make any two of them alike.
            short = {each.removeprefix(PREFIX): each for each in known}
            close = difflib.get_close_matches(name.removeprefix(PREFIX), short, n=1)
            hint = f"did you mean {short[close[0]]}?" if close else f"take it out; known are {', '.join(known)}"
            raise document.fault(f"{field} is no annotation that is known here: {hint}", field=field)


def _check_values(document: Document, annotations: Mapping[str, str], default: OrderSpec | None) -> None:
    try:
        order = order_spec.from_annotations(annotations, default)
        if default is not None:
            order_spec.refuse_useless_key(annotations, [order])
        scale_spec.from_annotations(annotations)
    except InvalidSpec as error:
        raise document.fault(str(error), field=error.field) from None
