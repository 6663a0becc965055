"""Who passes the operators' gate."""

from __future__ import annotations

import pytest
from fastapi import Request
from pydantic import SecretStr

from app.api.operators import FORWARDING_HEADERS, OperatorGate

KEY = OperatorGate(SecretStr("a-long-key-ü"))
LOCAL = OperatorGate(None)


def call(
    headers: dict[str, str] | None = None, client: str | None = "127.0.0.1", host: str = "localhost"
) -> Request:
    sent = {"host": host, **(headers or {})}
    return Request(
        {
            "type": "http",
            "method": "DELETE",
            "path": "/",
            "client": None if client is None else (client, 50_000),
            "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in sent.items()],
        }
    )


@pytest.mark.parametrize(
    ("authorization", "passes"),
    [
        ("Bearer a-long-key-ü", True),
        ("bearer  a-long-key-ü ", True),
        ("Bearer a-long-key", False),
        ("Bearer ", False),
        ("Basic a-long-key-ü", False),
        ("a-long-key-ü", False),
        ("", False),
    ],
)
def test_a_key_is_the_only_way_once_it_is_set(authorization: str, passes: bool) -> None:
    headers = {"authorization": authorization}

    assert KEY.is_operator(call(headers, client="203.0.113.9", host="example.org")) == passes
    assert KEY.is_operator(call(headers)) == passes


def test_loopback_does_not_replace_a_key() -> None:
    assert not KEY.is_operator(call())


@pytest.mark.parametrize("client", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:8000"])
def test_without_a_key_the_machine_itself_passes(client: str, host: str) -> None:
    assert LOCAL.is_operator(call(client=client, host=host))


@pytest.mark.parametrize("client", ["10.0.0.1", "203.0.113.9", "::ffff:10.0.0.1", "unix", "", None])
def test_without_a_key_nobody_else_passes(client: str | None) -> None:
    assert not LOCAL.is_operator(call(client=client))


@pytest.mark.parametrize("header", FORWARDING_HEADERS)
def test_without_a_key_a_call_through_a_proxy_is_refused(header: str) -> None:
    assert not LOCAL.is_operator(call({header: "127.0.0.1"}))


@pytest.mark.parametrize("host", ["evil.example:8000", "", "[", "127.0.0.1.evil.example"])
def test_without_a_key_another_host_name_is_refused(host: str) -> None:
    assert not LOCAL.is_operator(call(host=host))


@pytest.mark.parametrize(
    ("origin", "passes"),
    [
        ("http://localhost:8000", True),
        ("http://127.0.0.1:3000", True),
        ("https://evil.example", False),
        ("null", False),
    ],
)
def test_without_a_key_a_foreign_page_is_refused(origin: str, passes: bool) -> None:
    assert LOCAL.is_operator(call({"origin": origin})) == passes
