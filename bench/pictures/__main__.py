"""`python -m bench.pictures` lives through a day of the shop and draws what docs/dashboards and docs/screens show."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.pictures import dashboard, prometheus, shop, terminal, values
from bench.pictures.day import SECONDS, Day
from bench.pictures.prometheus import Prometheus
from bench.pictures.screens import Screens
from bench.pictures.values import Run
from infra.programs import tool_binaries

# Where the pods would be.
SYSTEM = "knative-eventing"
# Until the last of it is scraped.
AFTER = 4.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", metavar="FILE", type=Path, help="keep the values of the run there, as JSON")
    parser.add_argument("--values", metavar="FILE", type=Path, help="draw these in place of a new run")
    options = parser.parse_args()
    if options.values:
        run = Run.of(options.values.read_text(encoding="utf-8"))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            run = lived(Path(scratch))
    if options.keep:
        options.keep.write_text(run.text(), encoding="utf-8")
    for each in values.dashboards():
        dashboard.file(each["uid"]).write_text(dashboard.svg(each, run), encoding="utf-8")
    for name, said in run.screens.items():
        terminal.file(name).write_text(terminal.svg(said), encoding="utf-8")
    for empty in run.empty():
        print(f"shows nothing: {empty}", file=sys.stderr)
    return 1 if run.empty() else 0


def lived(directory: Path) -> Run:
    """One day, five minutes long."""
    with (
        shop.opened(directory) as opened,
        prometheus.scraping(opened.metrics, directory, SYSTEM) as scraping,
    ):
        screens = Screens(opened.nats)
        return asyncio.run(_lived(opened, scraping, screens))


async def _lived(opened: shop.Shop, scraping: Prometheus, screens: Screens) -> Run:
    async with shop.stocked(opened):
        day = Day(opened, screens)
        began = time.time()
        await asyncio.gather(day.live(), _told(began))
        await asyncio.sleep(AFTER)
        ended = began + SECONDS
        print(f"answers to producers: {day.sent}", file=sys.stderr)
        assert not scraping.down(), scraping.down()
        return Run(
            began,
            ended,
            {
                "date": f"{datetime.now(UTC):%Y-%m-%d}",
                "cores": str(os.cpu_count()),
                f"module {tool_binaries.PROMETHEUS.root}": f"v{tool_binaries.PROMETHEUS.version}",
            },
            [(act.at, act.said) for act in day.acts if act.said],
            await asyncio.to_thread(values.asked, scraping, began, ended),
            screens.said,
        )


async def _told(began: float) -> None:
    while (now := time.time() - began) < SECONDS:
        print(f"{now:.0f} of {SECONDS} s", file=sys.stderr, flush=True)
        await asyncio.sleep(30.0)


if __name__ == "__main__":
    sys.exit(main())
