"""A release lists the packages of the image, each and no other, and it builds the same image again."""

from __future__ import annotations

import json
import re
from email.parser import HeaderParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from infra.image import build, release
from infra.image.store import Store
from tests.support.programs.built_image import Built

Package = tuple[str, str, str]


@pytest.fixture(scope="module")
def bill(built_image: Built, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    target = tmp_path_factory.mktemp("bill") / "bill.cdx.json"
    release.bill_of_materials(built_image.archive, build.NAME, target)
    found: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    return found


def of_python(root: Path) -> set[Package]:
    """By what installers leave beside the modules."""
    found = set()
    for pattern in ("*.dist-info/METADATA", "*.egg-info/PKG-INFO"):
        for about in root.rglob(pattern):
            fields = HeaderParser().parsestr(about.read_text(encoding="utf-8"))
            found.add(("pypi", re.sub(r"[-_.]+", "-", fields["Name"]).lower(), fields["Version"]))
    return found


def of_debian(root: Path) -> set[Package]:
    """By what dpkg knows."""
    paragraphs = (root / "var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n")
    known = [HeaderParser().parsestr(text) for text in paragraphs if text.strip()]
    return {("deb", one["Package"], one["Version"]) for one in known if one["Status"] == "install ok installed"}


def package(purl: str) -> Package:
    kind, _, rest = purl.removeprefix("pkg:").partition("/")
    name, _, version = rest.partition("?")[0].rpartition("@")
    return kind, unquote(name.rpartition("/")[2]), unquote(version)


def test_it_lists_every_package_in_the_image_and_nothing_else(bill: dict[str, Any], built_image: Built) -> None:
    root = built_image.image.folder
    listed = [package(one["purl"]) for one in bill["components"] if "purl" in one]
    there = of_python(root) | of_debian(root)
    assert {"function", "aiohttp", "pip", "libc6", "python3.13"} <= {name for _, name, _ in there}
    assert set(listed) == there
    assert [one["name"] for one in bill["components"] if "purl" not in one] == ["debian"]


def test_it_is_about_this_very_image(bill: dict[str, Any], built_image: Built) -> None:
    about = bill["metadata"]["component"]
    assert (bill["bomFormat"], about["name"]) == ("CycloneDX", build.NAME)
    assert about["version"] == build.digest_in(built_image.archive)


def test_built_twice_from_other_files_of_the_same_content_it_has_one_digest(tmp_path: Path) -> None:
    # Without layers of before: those have the times of the commit that they were built from.
    name = f"{build.NAME}-twice"
    with Store() as store:
        digest = release.twice(store, name, tmp_path / "image.tar")
        store.said("rmi", name)
    assert digest == build.digest_in(tmp_path / "image.tar")
