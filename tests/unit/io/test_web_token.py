"""The shared token of `forward` and `reconcile`: who shows it, and where it is read from."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core import caller_token
from headrace.core.errors import Misconfigured
from headrace.core.http import request
from headrace.core.installation.function_settings import TokenSettings
from headrace.io.web import Token

SETTINGS = TokenSettings.model_validate({"HEADRACE_TOKEN": "sesame"})


@pytest.mark.parametrize(
    ("header", "passes"),
    [
        pytest.param(b"Bearer sesame", True, id="as it should be"),
        pytest.param(b"bearer  sesame ", True, id="schemes know no case"),
        pytest.param(b"sesame", False, id="no scheme"),
        pytest.param(b"Bearersesame", False, id="no blank"),
        pytest.param(b"Digest sesame", False, id="another scheme"),
        pytest.param(b"Basic aGVhZHJhY2U6c2VzYW1l", True, id="the password of a URL, which is headrace:sesame"),
        pytest.param(b"basic OnNlc2FtZQ==", True, id="a password without a user"),
        pytest.param(b"Basic sesame", False, id="the token as if it were Basic"),
        pytest.param(b"Basic c2VzYW1l", False, id="a user without a password"),
        pytest.param(b"Basic aGVhZHJhY2U6", False, id="an empty password"),
        pytest.param(b"Basic \xff", False, id="no base64"),
        pytest.param(b"Bearer", False, id="no token"),
        pytest.param(b"Bearer sesam\xe9", False, id="another token"),
    ],
)
async def test_who_shows_the_token_passes(header: bytes, passes: bool) -> None:
    refusal = await Token(SETTINGS).refusal(request("POST", "/", ((b"authorization", header),)))
    assert (refusal is None) is passes


async def test_a_token_file_is_read_again_at_each_check(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    token = Token(TokenSettings.model_validate({"HEADRACE_TOKEN_FILE": str(file)}))
    asked = request("POST", "/", ((b"authorization", b"Bearer n\xc3\xa9w"),))
    assert await token.refusal(asked) is not None
    file.write_bytes(b"n\xc3\xa9w\n")
    assert await token.refusal(asked) is None


def test_a_token_file_that_is_no_text_is_a_wrong_setting_and_tells_no_byte_of_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(Misconfigured, match="not UTF-8") as refused:
        Token(TokenSettings.model_validate({"HEADRACE_TOKEN_FILE": str(file)})).load()
    assert refused.value.field == "HEADRACE_TOKEN_FILE"
    assert "ff" not in str(refused.value).lower()


def test_a_token_that_is_no_text_in_the_environment_is_compared_byte_by_byte() -> None:
    settings = TokenSettings.model_validate({"HEADRACE_TOKEN": b"ses\xe9me".decode("utf-8", "surrogateescape")})
    assert Token(settings).load() == b"ses\xe9me"


HOST = "forward-billing.shop.svc.cluster.local"
TOLD = TokenSettings.model_validate({"HEADRACE_CALLER_DIGEST": caller_token.digests(b"sesame")(HOST)})


@pytest.mark.parametrize(
    ("shown", "passes"),
    [
        pytest.param(
            caller_token.bearer_for(b"sesame", f"http://{HOST}"), True, id="of the shared token and this host"
        ),
        pytest.param(
            caller_token.bearer_for(b"sesame", f"http://{HOST.upper()}:8080/x"), True, id="hosts know no case"
        ),
        pytest.param(caller_token.bearer_for(b"sesame", "http://forward-other.shop.svc"), False, id="of another host"),
        pytest.param(caller_token.bearer_for(b"simsim", f"http://{HOST}"), False, id="of another token"),
        pytest.param("sesame", False, id="the shared token itself"),
        pytest.param(TOLD.caller_digest, False, id="what the function is told, which anybody may read"),
        pytest.param("", False, id="nothing"),
    ],
)
async def test_a_function_knows_its_callers_by_a_digest(shown: str, passes: bool) -> None:
    refusal = await Token(TOLD).refusal(request("POST", "/", ((b"authorization", f"Bearer {shown}".encode()),)))
    assert (refusal is None) is passes


def test_a_url_that_is_none_has_a_token_that_is_good_for_nothing() -> None:
    assert caller_token.bearer_for(b"sesame", "http://[half") == caller_token.bearer_for_host(b"sesame", "")


def test_what_a_function_is_told_is_enough_to_start_and_never_shows_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CALLER_DIGEST", "0" * 64)
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)
    with pytest.raises(Misconfigured, match="no shared token"):
        Token.configured().load()
