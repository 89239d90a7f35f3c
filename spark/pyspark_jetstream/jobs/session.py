"""The beginning and end of every job: the session, words about progress, and errors as people want them.

A job is a `spark-submit` program: one file that takes whatever session it is given.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from headrace.core.errors import HeadraceError, Misconfigured
from pyspark_jetstream import plan
from pyspark_jetstream.client import BlockingApi, Connection, StreamInfo
from pyspark_jetstream.client.access import environment
from pyspark_jetstream.options import read_options
from pyspark_jetstream.writing.options import write_options
from pyspark_jetstream.writing.writers import look

_OURS = re.compile(r"^\s*(?:headrace\.core\.errors|pyspark_jetstream\.[\w.]+)\.\w+: (.*)$", re.MULTILINE)


def session(name: str) -> SparkSession:
    """The session of spark-submit, or a local one; the source is registered in it, for `--py-files`."""
    found: SparkSession = SparkSession.builder.appName(name).getOrCreate()
    # Dates and hours of reports and folders are the same wherever the job runs.
    found.conf.set("spark.sql.session.timeZone", "UTC")
    if not _finds_the_source(found):
        from pyspark_jetstream import JetStreamDataSource

        found.dataSource.register(JetStreamDataSource)
    return found


def _finds_the_source(spark: SparkSession) -> bool:
    """Whether Spark finds the installed source by itself; it would warn of one that is registered all the same."""
    if spark._jvm is None:
        return False
    return bool(spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists("jetstream"))


def say(words: str) -> None:
    """Write one line of progress to stderr: only reports go to stdout."""
    # The line is one write, since Spark's own processes log to the same stderr.
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


def run(
    main: Callable[[list[str]], None], words: list[str] | None = None, says: Mapping[str, str] | None = None
) -> None:
    """Run a job; exit status 2, with a message and no traceback, for an error that the caller can mend.

    Args:
        words: the arguments; those of the command line by default.
        says: the source's words for its options, and the job's words for the same arguments.
    """
    try:
        main(sys.argv[1:] if words is None else words)
    except HeadraceError as error:
        said = str(error)
    except PySparkException as error:
        # The error was raised in a process of Spark's, whose traceback has our message as one line.
        found = _OURS.findall(str(error))
        if not found:
            raise
        said = found[-1]
    else:
        return
    for theirs, ours in (says or {}).items():
        said = said.replace(theirs, ours)
    say(f"error: {said}")
    sys.exit(2)


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that every job has: the address of NATS, and any other option of the source."""
    parser.add_argument("--servers", help="NATS URLs, comma separated; else NATS_URL, as all of NATS_* is read")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a further option of the source, as credsFile=/etc/nats/user.creds; may be repeated",
    )


def add_origin(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name the origin."""
    origin = parser.add_mutually_exclusive_group(required=True)
    origin.add_argument("--channel", metavar="NAMESPACE/NAME")
    origin.add_argument("--stream")


def connection_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Raises:
    Misconfigured: an `--option` without a value.
    """
    found = {"servers": arguments.servers} if arguments.servers else {}
    return {**found, **named_options(arguments.option, "--option")}


def named_options(texts: list[str], argument: str) -> dict[str, str]:
    """Raises:
    Misconfigured: one text has no value.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Misconfigured(f"{argument} is {text!r}: write it as NAME=VALUE", field=argument)
        found[name] = value
    return found


def origin_options(arguments: argparse.Namespace) -> dict[str, str]:
    if arguments.channel:
        return {"channel": arguments.channel}
    return {"stream": arguments.stream}


def where(frame: DataFrame, condition: str | None) -> DataFrame:
    """The rows that `--where` chooses; all without one.

    Raises:
        Misconfigured: the text is no condition on these columns.
    """
    if not condition:
        return frame
    try:
        return frame.where(condition)
    except AnalysisException as error:
        raise Misconfigured(
            f"--where is {condition!r}: {first_line(error)}: write a condition in SQL on the columns "
            f"{', '.join(frame.columns)}",
            field="--where",
        ) from error


def first_line(error: PySparkException) -> str:
    """Spark's message, without the plan that it shows."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).rstrip(". ")


def check_target(options: dict[str, str]) -> None:
    """Check that the target in options of writing exists, and that a run of this name is no other one.

    Raises:
        HeadraceError: as `writers.look`.
    """
    look(write_options(options, environment(), streaming=False))


def stream_of(options: dict[str, str]) -> StreamInfo:
    """The single stream in options of reading, as it is now.

    Raises:
        Misconfigured: there is no such stream.
    """
    wanted = read_options(options, environment(), streaming=False)
    with Connection(wanted.access, name="spark job", planning=True) as connection:
        [found] = plan.selected(BlockingApi(connection), wanted).values()
    return found.info


def reader(spark: SparkSession, options: dict[str, str]) -> DataFrameReader:
    return spark.read.format("jetstream").options(**options)


def table(headings: list[str], rows: list[list[str]]) -> str:
    """Aligned columns: words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    is_number = [bool(rows) and all(_is_number(row[at]) for row in rows) for at in range(len(headings))]

    def line(cells: list[str]) -> str:
        aligned = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(cells, widths, is_number, strict=True)
        )
        return "  ".join(aligned).rstrip()

    return "\n".join([line(headings), "  ".join("-" * width for width in widths), *map(line, rows)])


def _is_number(text: str) -> bool:
    return not text.strip("0123456789.,- ") or not text


def collected(frame: DataFrame) -> list[list[str]]:
    """The rows of a small frame as text."""
    return [["" if value is None else _text(value) for value in row] for row in frame.collect()]


def _text(value: object) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
