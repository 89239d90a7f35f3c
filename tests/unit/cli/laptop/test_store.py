"""Where events are kept: whose a directory is, and what becomes of one whose owner was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.errors import Misconfigured
from headrace_cli.laptop import store

HOLD = """
import time
from headrace_cli.laptop import store
with store.open_store(None) as data:
    (data / "jetstream").mkdir()
    print(data, flush=True)
    time.sleep(60)
"""


class Holder:
    """A process that holds a temporary store below `parent`."""

    def __init__(self, parent: Path) -> None:
        environment = {**os.environ, "TMPDIR": str(parent)}
        command = [sys.executable, "-c", HOLD]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self._process.stdout is not None
        self._lines = self._process.stdout
        self.data = Path(next(line.strip() for line in self._lines if line.startswith(str(parent))))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._lines.close()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Holder]:
    holder = Holder(tmp_path)
    yield holder
    holder.kill()


def test_a_temporary_store_is_gone_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    with store.open_store(None) as data:
        assert data.parent == tmp_path

    assert list(tmp_path.iterdir()) == []


def test_a_named_store_stays(tmp_path: Path) -> None:
    with store.open_store(tmp_path / "deep" / "events") as data:
        (data / "event").touch()

    assert (tmp_path / "deep" / "events" / "event").exists()


def test_what_a_killed_run_has_left_is_removed(tmp_path: Path, holder: Holder) -> None:
    holder.kill()
    assert holder.data.is_dir()

    store.remove_leftovers(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_what_a_living_run_uses_stays(tmp_path: Path, holder: Holder) -> None:
    store.remove_leftovers(tmp_path)

    assert sorted(file.name for file in holder.data.iterdir()) == [store.LOCK, store.MARK, "jetstream"]


def test_what_somebody_has_rescued_with_data_stays(tmp_path: Path, holder: Holder) -> None:
    holder.kill()
    with store.open_store(holder.data):
        pass

    store.remove_leftovers(tmp_path)

    assert (holder.data / "jetstream").is_dir()


def test_a_directory_that_only_has_our_name_stays(tmp_path: Path) -> None:
    with store.open_store(tmp_path / "headrace-mine"):
        pass
    (tmp_path / "headrace-empty").mkdir()
    (tmp_path / "headrace-file").touch()
    (tmp_path / "headrace-link").symlink_to(tmp_path / "headrace-mine")

    store.remove_leftovers(tmp_path)

    names = ["headrace-empty", "headrace-file", "headrace-link", "headrace-mine"]
    assert sorted(file.name for file in tmp_path.iterdir()) == names


def test_a_store_in_use_is_refused(tmp_path: Path, holder: Holder) -> None:
    with pytest.raises(Misconfigured, match="is in use by another headrace up: stop it"), store.open_store(holder.data):
        pass


def test_a_store_that_can_not_be_made_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(Misconfigured, match="can't be used"), store.open_store(tmp_path / "file" / "events"):
        pass
