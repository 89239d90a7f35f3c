"""The columns that a reader can give, by name and Spark type, and which of them a query gets. Pure.

`.schema(…)` chooses columns and their order: a column that it leaves out is not made. It can't rename or convert.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.errors import Misconfigured
from pyspark_jetstream.options import ReadOptions

_MAP = "map<string,string>"

# Types as Spark's `simpleString` writes them.
MESSAGE_COLUMNS = {
    "stream": "string",
    "subject": "string",
    "sequence": "bigint",
    "timestamp": "timestamp",
    "headers": _MAP,
    "data": "binary",
}
# Without headers: an event's headers are its attributes and extensions. `subject` is the event's own.
EVENT_COLUMNS = {
    "id": "string",
    "source": "string",
    "type": "string",
    "subject": "string",
    "time": "timestamp",
    "datacontenttype": "string",
    "dataschema": "string",
    "extensions": _MAP,
    "data": "binary",
    "stream": "string",
    "sequence": "bigint",
    "timestamp": "timestamp",
    "error": "string",
}
# These columns are read only when `.schema` asks for them.
_MORE_EVENT_COLUMNS = {"specversion": "string", "headers": _MAP}


def default_columns(options: ReadOptions) -> dict[str, str]:
    if options.cloudevents:
        return EVENT_COLUMNS
    return {name: kind for name, kind in MESSAGE_COLUMNS.items() if name != "headers" or options.include_headers}


def default_ddl(options: ReadOptions) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in default_columns(options).items())


def checked(columns: Iterable[tuple[str, str]], options: ReadOptions) -> tuple[str, ...]:
    """The names of a query's columns, in their order.

    Args:
        columns: names and types of the schema that Spark hands over.

    Raises:
        Misconfigured: a column does not exist, or has another type.
    """
    known = {**EVENT_COLUMNS, **_MORE_EVENT_COLUMNS} if options.cloudevents else MESSAGE_COLUMNS
    names = []
    for name, kind in columns:
        if name in names:
            raise Misconfigured(f"schema has the column {name!r} twice: leave one of them out", field="schema")
        if name not in known:
            kinds = ", ".join(known)
            what = "with cloudevents" if options.cloudevents else "without cloudevents"
            raise Misconfigured(f"schema has a column {name!r}: {what} there are {kinds}", field="schema")
        if kind != known[name]:
            raise Misconfigured(
                f"schema has {name} as {kind!r}: it is a {known[name]}; choose it so and cast it in the query",
                field="schema",
            )
        names.append(name)
    return tuple(names)
