"""Mount or push, the higher revision counts, and a broken document takes nothing away."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.installation.function_settings import SecuritySettings
from headrace.core.security import document
from headrace.core.security.document import SecurityDocument
from headrace.core.security.flags import Flags
from headrace.io.process.security import Security

KEY = b"k" * 32


def revision(number: int) -> SecurityDocument:
    return SecurityDocument(number, Flags(oidc=True))


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    return tmp_path


def mounted(mount: Path, text: bytes) -> None:
    """As the kubelet does: a new folder, and the link to it swapped."""
    number = len(list(mount.iterdir()))
    folder = mount / f"..{number}"
    folder.mkdir()
    (folder / document.KEY).write_bytes(text)
    (mount / "..new").symlink_to(folder.name)
    (mount / "..new").rename(mount / "..data")
    if not (link := mount / document.KEY).is_symlink():
        link.symlink_to(f"..data/{document.KEY}")


def security(mount: Path, key: bytes = KEY) -> Security:
    return Security(SecuritySettings(directory=str(mount), place="shop"), key)


def pushed(one: SecurityDocument, *, place: str = "shop", key: bytes = KEY) -> bytes:
    return document.sealed(one.to_json(), place, key)


def test_without_a_mount_nothing_is_asked_for() -> None:
    found = Security(SecuritySettings())

    assert (found.now(), found.place) == (SecurityDocument(), "")


def test_a_document_that_is_mounted_later_counts_and_so_does_each_edit(mount: Path) -> None:
    found = security(mount)
    told: list[int] = []
    found.on_change.append(lambda one: told.append(one.revision))
    assert found.now() == SecurityDocument()

    for number in (3, 4):
        mounted(mount, revision(number).to_json())
        found.look()
        found.look()

    assert (found.now(), told) == (revision(4), [3, 4])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(b"{", "no JSON", id="garbage"),
        pytest.param(b"[]", "no object", id="another form"),
        pytest.param(b"[" * 100_000, "deep", id="nested without end"),
        pytest.param(b" " * (document.LONGEST + 1), "long", id="too long"),
        pytest.param(revision(2).to_json(), "old", id="an old revision"),
    ],
)
@pytest.mark.parametrize("by_push", [False, True])
def test_the_last_good_one_counts(mount: Path, text: bytes, why: str, by_push: bool) -> None:
    mounted(mount, revision(3).to_json())
    found = security(mount)

    if by_push:
        found.pushed(document.sealed(text, "shop", KEY))
    else:
        mounted(mount, text)
        found.look()

    assert found.now() == revision(3), why


def test_a_mount_that_vanishes_takes_nothing_away(mount: Path) -> None:
    mounted(mount, revision(3).to_json())
    found = security(mount)

    (mount / document.KEY).unlink()
    found.look()

    assert found.now() == revision(3)


def test_a_push_counts_before_the_mount_and_an_older_mount_does_not_undo_it(mount: Path) -> None:
    mounted(mount, revision(3).to_json())
    found = security(mount)

    found.pushed(pushed(revision(5)))
    mounted(mount, revision(4).to_json())
    found.look()

    assert found.now() == revision(5)


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(pushed(revision(9), key=b"x" * 32), id="of a stranger"),
        pytest.param(pushed(revision(9), place="bank"), id="for another place, played back here"),
        pytest.param(revision(9).to_json(), id="without a proof"),
        pytest.param(b"", id="empty"),
    ],
)
def test_a_forged_push_is_not_believed(mount: Path, forged: bytes) -> None:
    mounted(mount, revision(3).to_json())
    found = security(mount)

    found.pushed(forged)

    assert found.now() == revision(3)


def test_without_a_key_no_push_is_believed(mount: Path) -> None:
    found = security(mount, b"")

    found.pushed(pushed(revision(9), key=b""))

    assert (found.now(), found.place) == (SecurityDocument(), "")
