"""The alerting rules and their tests, as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[3] / "infra" / "prometheus"
ALERTS = FOLDER / "alerts.yaml"
TESTS = FOLDER / "alerts_test.yaml"


def rules() -> list[dict[str, Any]]:
    """All of them."""
    return [rule for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]
