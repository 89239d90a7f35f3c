"""Mounted Secrets as settings: which file is what, and which level counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from headrace.core.errors import Misconfigured
from headrace.core.installation import secret_files
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.installation.secret_files import Level
from headrace.io.process.mount import LastGood, Reading, texts
from tests.support.kube.mounts import Mount


def level(directory: str = "/c", **files: str) -> Level:
    return Level(directory, {name.replace("__", "."): text for name, text in files.items()})


@pytest.mark.parametrize(
    ("files", "settings"),
    [
        ({"nats__creds": "x"}, {"creds_file": "/c/nats.creds"}),
        ({"nkey__seed": "x"}, {"nkey_seed_file": "/c/nkey.seed"}),
        ({"token": "t"}, {"token": SecretStr("t")}),
        ({"username": "u", "password": "p"}, {"user": "u", "password": SecretStr("p")}),
        ({"ca__crt": "x"}, {"tls_ca_file": "/c/ca.crt"}),
        (
            {"tls__crt": "x", "tls__key": "y", "ca__crt": "z"},
            {"tls_cert_file": "/c/tls.crt", "tls_key_file": "/c/tls.key", "tls_ca_file": "/c/ca.crt"},
        ),
        ({}, {}),
    ],
)
def test_each_file_is_a_setting(files, settings):
    assert secret_files.settings([level(**files)]) == settings


def test_a_channels_own_identity_goes_along_with_the_clusters_ca():
    found = secret_files.settings([level("/channel", token="t"), level("/cluster", nats__creds="x", ca__crt="y")])
    assert found == {"token": SecretStr("t"), "tls_ca_file": "/cluster/ca.crt"}


def test_an_identity_that_is_mounted_replaces_that_of_the_environment_whole():
    given = NatsSettings(user="u", password=SecretStr("p"), tls_ca_file="/env/ca")
    found = given.overridden(None, secret_files.settings([level(nats__creds="x")]))
    assert (found.user, found.password, found.creds_file, found.tls_ca_file) == (None, None, "/c/nats.creds", "/env/ca")


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"token": "t", "nats__creds": "x"}, "/c holds nats.creds and token: keep one way to authenticate in a Secret"),
        ({"username": "u"}, "/c holds username without password: give both keys in its Secret"),
        ({"tls__key": "k"}, "/c holds tls.key without tls.crt: give both keys in its Secret"),
        ({"token": ""}, "/c/token is empty: fill the key of its Secret"),
    ],
)
def test_half_a_secret_is_none(files, says):
    with pytest.raises(Misconfigured) as wrong:
        secret_files.settings([level(**files)])
    assert str(wrong.value) == says


@pytest.mark.parametrize(
    ("levels", "prefix"),
    [
        pytest.param([level("/c/cluster-function", token="t")], "_INBOX_forward", id="of this function alone"),
        pytest.param([level("/c/cluster", token="t")], None, id="what all share is answered where all are"),
        pytest.param([level("/c/cluster", token="t", inbox__prefix="_MINE.a")], "_MINE.a", id="as the Secret says"),
        pytest.param(
            [level("/c/cluster-function", token="t", inbox__prefix="_MINE")], "_MINE", id="the Secret knows better"
        ),
        pytest.param(
            [level("/c/channel", token="a"), level("/c/cluster-function", token="t")], None, id="of the identity in use"
        ),
        pytest.param(
            [level("/c/channel", ca__crt="a"), level("/c/cluster-function", token="t")],
            "_INBOX_forward",
            id="a CA is no identity",
        ),
        pytest.param(
            [level("/c/cluster-function", tls__crt="a", tls__key="b"), level("/c/cluster", token="t")],
            "_INBOX_forward",
            id="a certificate is one",
        ),
    ],
)
def test_the_prefix_of_inboxes_goes_along_with_the_identity(levels, prefix):
    assert secret_files.settings(levels, "_INBOX_forward").get("inbox_prefix") == prefix


def test_a_prefix_that_is_none_is_refused():
    with pytest.raises(Misconfigured, match=r"inbox\.prefix is '_IN BOX\.>': give the beginning of a subject"):
        secret_files.settings([level(token="t", inbox__prefix="_IN BOX.>")])


def test_what_a_level_holds_is_not_shown():
    assert "s3cret" not in repr(level(token="s3cret"))


def test_a_mounted_directory_is_read_as_of_one_moment(tmp_path: Path):
    mount = Mount(tmp_path / "m", a="1", b="1\n")
    assert texts(mount.path, ("a", "b", "c"), longest=10) == {"a": "1", "b": "1"}
    mount.swap(b="2")
    assert texts(mount.path, ("a", "b", "c"), longest=10) == {"b": "2"}


def test_what_is_no_text_or_too_long_is_told_without_being_shown(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"\xff\xfe")
    (tmp_path / "b").write_text("x" * 11)
    for name in ("a", "b"):
        with pytest.raises(Misconfigured):
            texts(str(tmp_path), (name,), longest=10)


def test_the_last_good_value_counts_while_what_is_there_is_broken(tmp_path: Path):
    path = tmp_path / "number"

    def read() -> int:
        text = path.read_text()
        if not text.isdigit():
            raise Misconfigured(f"{text} is no number", field="number")
        return int(text)

    path.write_text("no")
    kept = LastGood(read)
    with pytest.raises(Misconfigured):
        kept.now()
    path.write_text("1")
    assert kept.now() == Reading(1)
    path.write_text("broken")
    assert kept.now() == Reading(1, "broken is no number")
    path.write_text("2")
    assert kept.now() == Reading(2)
