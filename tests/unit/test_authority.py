"""Certificates of our own: strict clients accept them, and what cannot be served is told apart."""

from __future__ import annotations

import ipaddress
import ssl
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.verification import PolicyBuilder, Store

from controller.authority import (
    InvalidServerName,
    Issued,
    UnusablePair,
    issue,
    issued_by,
    read_bundle,
    server_names,
    usable_pair,
    write_bundle,
)

NOW = datetime.now(UTC).replace(microsecond=0)
LIFETIME = timedelta(days=90)
EXTRA = ("webhook.example.org", "192.0.2.7", "2001:db8::7")
NAMES = server_names("webhook", "placement-system", EXTRA)


def handshake(certificate: bytes, key: bytes, bundle: bytes, host: str, folder: Path) -> None:
    """Connects as a strict client that trusts `bundle` and asks for `host`; raises `ssl.SSLError` as it does."""
    pair = folder / "pair.pem"
    pair.write_bytes(certificate + key)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pair)
    trusting = ssl.create_default_context(cadata=bundle.decode())
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    upstream, downstream = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(downstream, upstream, server_hostname=host)
    server = serving.wrap_bio(upstream, downstream, server_side=True)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    with suppress(ssl.SSLWantReadError):
        server.do_handshake()
    client.do_handshake()
    server.do_handshake()


def issued(now: datetime = NOW, lifetime: timedelta = LIFETIME) -> Issued:
    return issue(NAMES, now, lifetime)


def authorities(*pairs: Issued) -> tuple[x509.Certificate, ...]:
    return tuple(x509.load_pem_x509_certificate(pair.authority) for pair in pairs)


@pytest.mark.parametrize(
    "host",
    [
        "webhook.placement-system.svc",
        "webhook.placement-system.svc.cluster.local",
        "webhook.placement-system",
        *EXTRA,
    ],
)
def test_a_strict_client_accepts_the_pair_under_each_of_its_names(host: str, tmp_path: Path) -> None:
    pair = issued()
    handshake(pair.certificate, pair.key, pair.authority, host, tmp_path)


def test_a_client_accepts_the_pairs_of_both_authorities_of_a_bundle(tmp_path: Path) -> None:
    old, new = issued(), issued()
    for pair in (old, new):
        handshake(pair.certificate, pair.key, old.authority + new.authority, "webhook.placement-system.svc", tmp_path)


def test_a_verifier_by_the_rules_of_the_web_accepts_the_pair() -> None:
    pair = issued()
    verifier = (
        PolicyBuilder()
        .store(Store([*authorities(pair)]))
        .time(NOW)
        .build_server_verifier(x509.DNSName("webhook.placement-system.svc"))
    )
    assert len(verifier.verify(x509.load_pem_x509_certificate(pair.certificate), [])) == 2


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pair that was made `made_at`, a client that asks for `host`, and what it says."""

    says: str
    host: str = "webhook.placement-system.svc"
    made_at: datetime = NOW
    trusted: bool = True


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Refusal("Hostname mismatch", host="webhook.default.svc"), id="another-service"),
        pytest.param(Refusal("IP address mismatch", host="192.0.2.8"), id="another-address"),
        pytest.param(Refusal("unable to get local issuer", trusted=False), id="another-authority"),
        pytest.param(Refusal("expired", made_at=NOW - timedelta(days=91)), id="expired"),
        pytest.param(Refusal("not yet valid", made_at=NOW + timedelta(days=1)), id="not-yet-valid"),
    ],
)
def test_a_client_refuses_what_it_should(case: Refusal, tmp_path: Path) -> None:
    pair = issued(case.made_at)
    bundle = pair.authority if case.trusted else issued().authority
    with pytest.raises(ssl.SSLCertVerificationError, match=case.says):
        handshake(pair.certificate, pair.key, bundle, case.host, tmp_path)


def test_a_client_whose_clock_is_an_hour_behind_accepts_a_new_pair() -> None:
    pair = issued()
    an_hour_ago = NOW - timedelta(hours=1)
    assert usable_pair(pair.certificate, pair.key, authorities(pair), an_hour_ago).expiry == NOW + LIFETIME


def test_an_authority_signs_nothing_but_its_own_leaf() -> None:
    one, other = issued(), issued()
    leaf = x509.load_pem_x509_certificate(one.certificate)
    (own,), (foreign,) = authorities(one), authorities(other)
    assert own.subject != foreign.subject
    assert issued_by(leaf, own)
    assert not issued_by(leaf, foreign)
    assert own.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0


def test_leaf_and_authority_name_their_keys_so_that_a_client_finds_the_right_authority() -> None:
    pair = issued()
    leaf = x509.load_pem_x509_certificate(pair.certificate).extensions
    authority = authorities(pair)[0].extensions
    own_id = authority.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert leaf.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier == own_id
    assert authority.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier == own_id
    assert leaf.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest != own_id


def test_dns_names_and_addresses_are_told_apart_and_named_once() -> None:
    extra = ["Host.Example.ORG", "host.example.org", "10.0.0.1", "::1", "fe80::1%eth0", "*.example.org"]
    assert server_names("webhook", "placement-system", extra)[3:] == (
        x509.DNSName("host.example.org"),
        x509.IPAddress(ipaddress.ip_address("10.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
        x509.IPAddress(ipaddress.ip_address("fe80::1")),
        x509.DNSName("*.example.org"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "two words",
        "bücher.example",
        "https://example.org",
        "example.org:443",
        "10.0.0.300",
        "10.0.0.0/8",
        "dot.at.end.",
        "a..b",
        "-a.b",
        "x" * 64 + ".org",
        ".".join(["x" * 60] * 5),
    ],
)
def test_what_is_neither_name_nor_address_is_refused_with_the_right_form(text: str) -> None:
    with pytest.raises(InvalidServerName, match="write a DNS name such as") as refused:
        server_names("webhook", "placement-system", [text])
    assert str(refused.value).startswith(repr(text))


def test_a_usable_pair_knows_its_names_its_issuer_and_its_times() -> None:
    old, new = issued(NOW - timedelta(days=60)), issued()
    pair = usable_pair(new.certificate, new.key, authorities(old, new), NOW)
    assert pair.issuer == authorities(new)[0]
    assert pair.expiry == NOW + timedelta(days=90)
    assert pair.renew_at == NOW + timedelta(days=60)
    assert pair.covers(NAMES)
    assert pair.covers(NAMES[:2])
    assert not pair.covers([*NAMES, x509.DNSName("other.example.org")])


def encrypted(key: bytes) -> bytes:
    loaded = serialization.load_pem_private_key(key, password=None)
    return loaded.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )


GOOD, OTHER = issued(), issued()


@pytest.mark.parametrize(
    ("certificate", "key", "trusted", "at", "says"),
    [
        pytest.param(b"", GOOD.key, GOOD, NOW, "certificate cannot be read", id="no-certificate"),
        pytest.param(GOOD.certificate[:99], GOOD.key, GOOD, NOW, "certificate cannot be read", id="half-a-certificate"),
        pytest.param(GOOD.certificate, b"", GOOD, NOW, "key cannot be read", id="no-key"),
        pytest.param(GOOD.certificate, GOOD.key[:99], GOOD, NOW, "key cannot be read", id="half-a-key"),
        pytest.param(GOOD.certificate, encrypted(GOOD.key), GOOD, NOW, "key cannot be read", id="key-with-a-password"),
        pytest.param(GOOD.certificate, OTHER.key, GOOD, NOW, "do not belong together", id="key-of-another"),
        pytest.param(GOOD.certificate, GOOD.key, OTHER, NOW, "none of the authorities", id="authority-of-another"),
        pytest.param(GOOD.certificate, GOOD.key, GOOD, NOW + timedelta(days=91), "expired at 2", id="expired"),
        pytest.param(GOOD.certificate, GOOD.key, GOOD, NOW - timedelta(days=1), "valid only from 2", id="not-yet"),
    ],
)
def test_a_pair_that_cannot_be_served_says_why(
    certificate: bytes, key: bytes, trusted: Issued, at: datetime, says: str
) -> None:
    with pytest.raises(UnusablePair, match=says):
        usable_pair(certificate, key, authorities(trusted), at)


def test_a_bundle_is_read_in_order_and_without_what_expired() -> None:
    expired, old, new = issued(NOW - timedelta(days=100)), issued(NOW - timedelta(days=60)), issued()
    read = read_bundle(expired.authority + old.authority + new.authority, NOW)
    assert read == authorities(old, new)
    assert write_bundle(read) == old.authority + new.authority


@pytest.mark.parametrize("pem", [b"", b"no PEM", GOOD.authority + GOOD.authority.replace(b"M", b"N")])
def test_a_bundle_that_cannot_be_read_holds_no_authority(pem: bytes) -> None:
    assert read_bundle(pem, NOW) == ()


def test_keys_are_not_shown_when_a_pair_is_printed() -> None:
    assert "PRIVATE KEY" not in repr(GOOD)
    assert "PRIVATE KEY" not in repr(usable_pair(GOOD.certificate, GOOD.key, authorities(GOOD), NOW))
