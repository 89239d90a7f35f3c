"""Rules for options that would have no effect beside others, or without them: refused before anything is done.

Somebody who gives an option wants something; a command that passes over it does something else. Not refused is what
`--dry-run` leaves undone, so that it can be put behind the very command that it tries, nor `--yes` where nothing is
asked. Each verb names its rules; those of options that many verbs have are here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import click

from headrace.core.errors import Misconfigured

# The values of a verb's options by their names, as click hands them over.
Given: TypeAlias = dict[str, Any]


class Unless(NamedTuple):
    """One option that only sometimes has an effect.

    Attributes:
        option: its name in Python.
        useful: whether it has an effect beside the other options that were given.
        says: the reason why it has none and the cure; its name stands in front.
    """

    option: str
    useful: Callable[[Given], object]
    says: str


def obeying(run: Callable[[Given], int], rules: Sequence[Unless]) -> Callable[..., int]:
    """The callback for click: the verb, which refuses options that would have no effect.

    Raises:
        Misconfigured: from the callback; the exit status is 2.
    """

    def checked(**given: Any) -> int:
        context = click.get_current_context()
        for rule in rules:
            if _is_given(context, rule.option) and not rule.useful(given):
                name = spell(context.command, rule.option)
                raise Misconfigured(f"{name} {rule.says}", field=name)
        return run(given)

    return checked


def is_given(option: str) -> bool:
    """Was the option given on the command line of the verb that runs, rather than left at its default?"""
    return _is_given(click.get_current_context(), option)


def spell(command: click.Command, option: str) -> str:
    """The option as it is typed, in its longest form."""
    [found] = [each for each in command.params if each.name == option]
    return max(found.opts, key=len)


def _is_given(context: click.Context, option: str) -> bool:
    return context.get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE


def of_namespaces(argument: str, *, every: bool) -> list[Unless]:
    """Args:
    argument: the one that may be NAMESPACE/NAME; empty: there is none. every: there is -A, too.
    """
    rules = []
    if argument:
        rules.append(
            Unless(
                "namespace",
                lambda given: (
                    "/" not in (given[argument] or "") or given[argument].rpartition("/")[0] == given["namespace"]
                ),
                f"is not the namespace that {argument.upper()} has in itself: leave out one of the two",
            )
        )
    if every:
        rules.append(
            Unless(
                "namespace",
                lambda given: not given["all_namespaces"],
                "is one namespace, and -A are all: leave out one of the two",
            )
        )
        if argument:
            rules.append(
                Unless(
                    "all_namespaces",
                    lambda given: not given[argument],
                    f"is for no {argument.upper()}: leave out one of the two",
                )
            )
    return rules


def one_of(*options: str, says: str) -> list[Unless]:
    """Refuse the second one of options that say the same thing.

    Args:
        says: the thing, as in `where to begin`.
    """
    *most, last = (f"--{option.replace('_', '-').rstrip('-')}" for option in options)
    words = f"is not alone: of {', '.join(most)} and {last} one says {says}"
    return [Unless(option, _alone(options[:place]), words) for place, option in enumerate(options) if place]


def _alone(others: Sequence[str]) -> Callable[[Given], bool]:
    return lambda given: all(given[other] in (None, False) for other in others)


NO_NATS_WITH_CLUSTER = Unless(
    "nats",
    lambda given: not (given["cluster"] or given["kubeconfig"] or given["context"]),
    "is not asked with --cluster, --kubeconfig or --context: leave out one of the two",
)
NO_RUN_TO_AN_ADDRESS = Unless(
    "run",
    lambda given: not given["to_uri"],
    "keeps a stream from storing an event twice, and --to-uri stores none: leave it out",
)
