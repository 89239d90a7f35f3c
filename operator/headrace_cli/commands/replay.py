"""The words of `replay`."""

from __future__ import annotations

from headrace.core.errors import Misconfigured
from headrace_cli.commands import params
from headrace_cli.commands.rules import NO_RUN_TO_AN_ADDRESS, Given, Unless, one_of
from headrace_cli.commands.sessions import on_nats

HELP = """\
Bring events that lie in a channel's stream again: to one of its Subscriptions and to no other, to another channel, or
to an address. Which: by sequence or time, and by filter. The events are what they were; nobody's position moves.

To a Subscription the events go through the stream, marked for it, and are delivered as always, with retries and dead
letter sink. To begin anew with everything there is `subscription reset`, which stores nothing.

It can be stopped at any event; it then says how to go on. With --checkpoint FILE the same command goes on by itself,
also after it was killed.

examples:
  kn jetstream replay orders --since 2h --to-subscription billing --rate 100
  kn jetstream replay orders --sequence 4711 --until-sequence 4800 --to-channel repaired
  kn jetstream replay shop/orders --since 1d --type shop.order --to-uri http://127.0.0.1:9000/ --checkpoint r.json
  kn jetstream replay orders --since 2026-01-31T09:00:00Z --until 2026-01-31T10:00:00Z --to-subscription billing --dry-run
"""  # noqa: E501  # an example is one line


def _replay(_: str, given: Given) -> int:
    targets = [name for name in ("to_subscription", "to_channel", "to_uri") if given[name]]
    if len(targets) != 1:
        wanted = "give one of --to-subscription, --to-channel and --to-uri"
        raise Misconfigured(f"{'nobody is' if not targets else 'several are'} to get them: {wanted}", field="--to-uri")
    if given["sequence"] is None and given["since"] is None and not given["from_start"]:
        raise Misconfigured("say from where: --sequence, --since, or --from-start", field="--since")

    from headrace_cli.commands.actions import replay

    return on_nats(given, replay.replay)


COMMAND = params.verb(
    "replay",
    _replay,
    params.Words(HELP, "Deliver stored events again, to whom you choose."),
    params.channel(),
    params.number("--sequence", "Begin at this sequence.", least=1),
    params.value("--since", "TIME", "Begin with the first event since then: RFC 3339, or 10m, 2h, 3d ago."),
    params.flag("--from-start", "Begin at the first event of the stream."),
    params.number("--until-sequence", "End with this sequence.", least=1),
    params.value("--until", "TIME", "End with the last event before then. Default: with the last of now."),
    *params.event_filters(),
    params.value("--to-subscription", "NAME", "To this Subscription of the channel alone."),
    params.value("--to-channel", "CHANNEL", "To all Subscriptions of this channel."),
    params.flag("--to-same-channel", "--to-channel may be the channel itself."),
    params.address("--to-uri", "To this address, by one POST each."),
    params.rate(),
    params.value("--run", "NAME", "The name of an interrupted replay, to go on with it."),
    params.value("--checkpoint", "FILE", "Keep there how far it is; goes on where FILE says."),
    params.dry_run(),
    obeys=[
        *one_of("sequence", "since", "from_start", says="where to begin"),
        *one_of("until_sequence", "until", says="where to end"),
        Unless("to_same_channel", lambda given: given["to_channel"], "is for --to-channel: give it, too"),
        NO_RUN_TO_AN_ADDRESS,
    ],
)
