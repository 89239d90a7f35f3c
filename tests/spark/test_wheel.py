"""The wheel as a zip on the path, as `--py-files` puts it there: nothing of the repository, and no pydantic."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from pyspark_jetstream import DefaultSource, JetStreamDataSource
assert DefaultSource is JetStreamDataSource and DefaultSource.name() == "jetstream"
import pyspark_jetstream.batch_reader, pyspark_jetstream.stream_reader
ours = [module for name, module in sys.modules.items() if name.split(".")[0] in ("headrace", "pyspark_jetstream")]
elsewhere = [module.__file__ for module in ours if not module.__file__.startswith(sys.argv[1])]
assert len(ours) > 30 and not elsewhere, elsewhere
assert "pydantic" not in sys.modules and "nats" not in sys.modules
"""


def test_the_zip_is_all_that_is_needed(tmp_path: Path) -> None:
    build = ["uv", "build", "--quiet", "--wheel", str(ROOT / "spark"), "--out-dir", str(tmp_path)]
    subprocess.run(build, check=True, timeout=120)
    [wheel] = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-c", PROGRAM, str(wheel)], check=True, timeout=120, cwd=tmp_path)
