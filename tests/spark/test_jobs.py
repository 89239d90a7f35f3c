"""The jobs that people submit, called with their arguments, and once by spark-submit itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.core.delivery import parked
from headrace.core.errors import HeadraceError, Misconfigured, Refused, Unavailable
from jobs import archive, deadletters, profile_events, replay
from pyspark_jetstream.jobs import session
from tests.support.nats.nats_server import NatsServer
from tests.support.spark.spark_channels import Channel
from tests.support.spark.spark_programs import run

ROOT = Path(__file__).resolve().parents[2]
JOBS = sorted((ROOT / "spark" / "jobs").glob("*.py"))


@pytest.mark.parametrize(
    ("kind", "package"),
    [("delta", r"io\.delta:delta-spark_4\.\d_2\.13"), ("iceberg", r"iceberg-spark-runtime-4\.\d_2\.13")],
)
def test_a_table_format_whose_package_is_missing_is_told(
    spark: SparkSession, orders: Channel, tmp_path: Path, kind: str, package: str
) -> None:
    with pytest.raises(Misconfigured, match=f"{kind}.*--packages .*{package}:VERSION"):
        archive.main(["--channel", orders.name, "--target", str(tmp_path), "--format", kind])


def test_an_archive_is_replayed_with_its_identities_and_the_window_does_not_swallow_it(
    spark: SparkSession, orders: Channel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders.send(30)
    sent = sorted(orders.events(spark))
    archive.main(["--channel", orders.name, "--target", str(tmp_path / "lake")])
    other = Channel(orders.streams, "again")
    words = ["--parquet", str(tmp_path / "lake")]
    replay.main([*words, "--to", other.name, "--run", f"run-{other.stream}"])
    assert sorted(other.events(spark)) == sent
    assert f"30 events sent to {other.name}" in capsys.readouterr().err
    # The same run once more sends what is missing, which is nothing.
    replay.main([*words, "--to", other.name, "--run", f"run-{other.stream}"])
    assert "was complete before, with 30 events, the same: none is sent" in capsys.readouterr().err
    with pytest.raises(Refused, match=r"was complete before in stream .* with runSelection .*nothing was written"):
        replay.main([*words, "--where", "type = 'order.1'", "--to", other.name, "--run", f"run-{other.stream}"])
    assert "unknown part" not in capsys.readouterr().err
    assert other.count == 30
    # Into the channel itself, while the server remembers the ids of all of them.
    replay.main([*words, "--where", "type = 'order.1'", "--to", orders.name])
    assert sorted(orders.events(spark)) == sorted([*sent, *(event for event in sent if event[2] == "order.1")])


def test_a_range_of_a_stream_is_replayed_in_its_order_at_a_rate(
    spark: SparkSession, orders: Channel, capsys: pytest.CaptureFixture[str]
) -> None:
    orders.send(40)
    other = Channel(orders.streams, "again")
    words = ["--stream", orders.stream, "--from-sequence", "11", "--to-sequence", "30", "--to", other.name]
    replay.main([*words, "--dry-run"])
    assert capsys.readouterr().out == "20\n"
    replay.main([*words, "--rate", "20"])
    assert [event[0] for event in other.events(spark)] == [str(number) for number in range(10, 30)]
    first, last = (
        datetime.fromisoformat(
            orders.streams.jetstream.call(f"STREAM.INFO.{other.stream}")["state"][which][:26] + "+00:00"
        )
        for which in ("first_ts", "last_ts")
    )
    # 20 events at 20 a second: the last one 0.95 s after the first, or later, less what may come at once.
    assert (last - first).total_seconds() > 0.8


def test_what_is_no_event_ends_a_replay_or_is_counted_and_left_out(
    spark: SparkSession, orders: Channel, capsys: pytest.CaptureFixture[str]
) -> None:
    orders.send(3)
    orders.streams.store([(orders.subject, {"ce-specversion": "1.0", "ce-id": "bad"}, b"?")])
    # Too large for a channel, though it is in a stream.
    large = {"ce-specversion": "1.0", "ce-id": "large", "ce-source": "/shop", "ce-type": "order"}
    orders.streams.store([(orders.subject, large, b"x" * (1024 * 1024 - 8 * 1024))])
    other = Channel(orders.streams, "again")
    words = ["--channel", orders.name, "--to", other.name, "--run", f"run-{other.stream}"]
    with pytest.raises(SystemExit):
        replay.run(words)
    said = capsys.readouterr().err
    assert f"an unknown part may be in {other.name}: --run run-{other.stream} sends only what is missing" in said
    assert "Give --skip-faulty to send the others" in said
    with pytest.raises(SystemExit):
        replay.run([*words, "--skip-faulty", "--where", "type = 'order.1'"])
    choice = f"'--channel {orders.name}', and is given '--channel {orders.name} --where "
    said = capsys.readouterr().err
    assert f"error: run run-{other.stream} was begun in stream {other.stream} with the choice {choice}" in said
    assert "or another --run for other events" in said
    replay.run([*words, "--skip-faulty", "--dry-run"])
    assert capsys.readouterr().out == "4\n"
    replay.run([*words, "--skip-faulty"])
    said = capsys.readouterr().err
    assert f"3 events sent to {other.name}, 2 faulty and left out (row 3 of partition 0: " in said
    assert "the reader found no event in it" in said
    assert "at most" in said
    assert other.count == 3


def test_parked_events_are_reported_by_what_they_have_in_common(
    spark: SparkSession, orders: Channel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    streams = orders.streams
    aside = f"{orders.stream}_aside"
    prefix = f"{streams.root}.orders._knative_aside"
    streams.jetstream.call(f"STREAM.CREATE.{aside}", {"name": aside, "subjects": [f"{prefix}.>"]})

    def parked_event(number: int, reason: str, subscriber: str, **own: str) -> tuple[str, dict[str, str], bytes]:
        headers = {
            parked.ORIGIN_STREAM: orders.stream,
            parked.REASON: reason,
            parked.SUBSCRIPTION: subscriber,
            parked.ATTEMPTS: "3",
            **own,
        }
        return f"{prefix}.parked.C.{number}.1", headers, b'{"specversion":"1.0","type":"from.json"}'

    streams.store(
        [
            parked_event(1, "gave up after 3 attempts", "shop/billing", **{"ce-type": "order.created"}),
            parked_event(2, "gave up after 4 attempts", "shop/billing", **{"Ce-Type": "order.created"}),
            parked_event(3, "refused: 400", "shop/mail"),
            (f"{prefix}.stage.C.9", {"other": "record"}, b"{}"),
        ]
    )
    files = {name: tmp_path / name for name in ("chart.svg", "report.jsonl")}
    words = ["--chart", str(files["chart.svg"]), "--json", str(files["report.jsonl"])]
    deadletters.main(["--channel", orders.name, *words])
    lines = [json.loads(line) for line in files["report.jsonl"].read_text().splitlines()]
    assert [(line["reason"], line["subscriber"], line["type"], line["events"]) for line in lines] == [
        ("gave up after N attempts", "shop/billing", "order.created", "2"),
        ("refused: N", "shop/mail", "from.json", "1"),
    ]
    assert "gave up after N attempts  shop/billing" in capsys.readouterr().out
    chart = files["chart.svg"].read_text()
    assert chart.count("<rect") == 1 + 2 + 2
    assert "gave up after N attempts (2)" in chart


def test_a_profile_counts_by_type_and_source_and_tells_how_late_events_are(
    spark: SparkSession, orders: Channel, tmp_path: Path
) -> None:
    late = datetime.now(UTC) - timedelta(seconds=90)
    orders.send(10, time=late.isoformat(), type="order.late")
    orders.send(3, start=100, type="order.other")
    report = tmp_path / "report.jsonl"
    profile_events.main(["--channel", orders.name, "--json", str(report)])
    first, second = (json.loads(line) for line in report.read_text().splitlines())
    assert (first["type"], first["source"], first["events"], first["faulty"]) == ("order.late", "/shop", 10, 0)
    assert (first["mean_bytes"], first["most_bytes"]) == (1.0, 1)
    assert 89 < first["lag_p50_s"] <= first["most_lag_s"]
    assert (second["events"], second["mean_bytes"], second["lag_p50_s"]) == (3, 3.0, None)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_a_job_explains_itself(job: Path) -> None:
    done = subprocess.run([sys.executable, str(job), "--help"], capture_output=True, text=True, timeout=300, check=True)
    assert "--option NAME=VALUE" in done.stdout


def test_spark_submit_runs_a_job(nats_server: NatsServer, orders: Channel) -> None:
    orders.send(3)
    command = [Path(sys.executable).with_name("spark-submit"), "--master", "local[1]"]
    command += ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    command += [ROOT / "spark" / "jobs" / "profile_events.py", "--channel", orders.name]
    said = run(command, {"PYSPARK_PYTHON": sys.executable, "NATS_URL": nats_server.url})
    assert "order.0  /shop" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--channel", "nowhere/at-all"], "error: option channel is 'nowhere/at-all'", id="by Spark"),
        pytest.param(["--stream", "A", "--option", "none"], "error: --option is 'none'", id="by the job"),
    ],
)
def test_what_is_wrong_is_told_in_a_line_wherever_it_was_found(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        session.run(profile_events.main, words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("main", "words"),
    [
        pytest.param(archive.main, ["--stream", "A", "--target", "/nowhere"], id="archive"),
        pytest.param(deadletters.main, ["--stream", "A"], id="deadletters"),
        pytest.param(profile_events.main, ["--channel", "a/b"], id="profile_events"),
        pytest.param(replay.main, ["--parquet", "/nowhere", "--to", "a/b"], id="replay"),
    ],
)
def test_a_server_that_is_not_there_is_told_before_spark_is_started(
    main: Callable[[list[str]], None], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(_name: str) -> None:
        raise AssertionError("Spark was started first")

    monkeypatch.setattr(session, "session", started)
    with pytest.raises(Unavailable, match="NATS can't be reached"):
        main([*words, "--servers", "nats://127.0.0.1:1", "--option", "timeout=0.1"])


def test_what_a_job_is_told_wrongly_is_an_error_of_ours(spark: SparkSession, orders: Channel) -> None:
    for main, words in (
        (replay.main, ["--stream", "A", "--to", "a/b", "--option", "novalue"]),
        (replay.main, ["--stream", "A", "--to", "a/b", "--rate", "1", "--tasks", "2"]),
        (replay.main, ["--stream", "A", "--to", "a/b", "--dry-run"]),
        (replay.main, ["--stream", "A", "--to", "orders", "--dry-run"]),
        (replay.main, ["--parquet", "/nowhere", "--to", orders.name]),
        (replay.main, ["--channel", orders.name, "--to", orders.name, "--where", "typ = 'a'"]),
        (profile_events.main, ["--channel", orders.name, "--where", "type like 'a"]),
        (archive.main, ["--channel", orders.name, "--target", "/nowhere", "--range", "-5"]),
        (archive.main, ["--channel", orders.name, "--target", "/nowhere", "--compact-files", "0"]),
        (replay.main, ["--parquet", "A", "--to", "a/b", "--since", "2026-01-01T00:00:00Z"]),
        (deadletters.main, ["--stream", "A", "--by", "reason,colour"]),
        (deadletters.main, ["--channel", "a/nowhere"]),
    ):
        with pytest.raises(HeadraceError):
            main(words)
