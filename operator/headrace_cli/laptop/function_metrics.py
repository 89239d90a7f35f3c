"""The metrics of the functions of a `headrace up`, for the page that has the operator's metrics.

Each function has its `/metrics` on a loopback port of its own, apart from the port of its events. So a scrape wakes no
function and keeps none alive, and the page says nothing of a function that does not run. A page may have a family only
once: what several functions tell under one name is put together, and each sample names its `function`. This module
needs prometheus-client; `headrace_cli.laptop.metrics_page` imports it when it is asked for.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from headrace.core.metrics import PATH
from headrace_cli.laptop.child import LOOPBACK

# A function that hangs must not hide the others: Prometheus itself gives up after ten seconds.
ASK_SECONDS = 2.0
# A thousand channels take 300 KiB.
LONGEST_PAGE = 16 * 1024 * 1024


def ask(ports: Mapping[str, int]) -> Iterable[Metric]:
    """Ask all functions at once; gives the families of those that run.

    Args:
        ports: where the `/metrics` of each function is, by its name.
    """
    with ThreadPoolExecutor(max(1, len(ports))) as threads:
        pages = list(threads.map(_page, ports.values()))
    return merged(dict(zip(ports, pages, strict=True)))


def merged(pages: Mapping[str, str]) -> list[Metric]:
    """Each family once, with the samples of all functions; the label `function` is added where a sample has none."""
    found: dict[str, Metric] = {}
    for function, page in pages.items():
        for family in text_string_to_metric_families(page):
            whole = found.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            whole.samples += [each._replace(labels={"function": function, **each.labels}) for each in family.samples]
    return list(found.values())


def _page(port: int) -> str:
    """The page of one function now; empty when it does not run, or hangs."""
    asking = http.client.HTTPConnection(LOOPBACK, port, timeout=ASK_SECONDS)
    try:
        asking.request("GET", PATH)
        answer = asking.getresponse()
        page = answer.read(LONGEST_PAGE)
        return page.decode() if answer.status == 200 and answer.isclosed() else ""
    except (OSError, http.client.HTTPException, UnicodeDecodeError):
        return ""
    finally:
        asking.close()
