"""Makes a serving certificate with an authority of its own, and judges certificates that were stored."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shared.api import names

_BACKDATED: Final = timedelta(hours=1)
"""How far the clock of an API server may be behind ours."""
_RENEWED_AFTER: Final = 2 / 3
"""The part of its life after which a certificate is renewed."""

_LABEL: Final = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_DNS_NAME = re.compile(rf"(\*\.)?({_LABEL}\.)*(?![0-9]+\Z){_LABEL}")
_LONGEST_DNS_NAME: Final = 253


class InvalidServerName(ValueError):
    """A string that is neither a DNS name nor an IP address."""


class UnusablePair(ValueError):
    """Why a stored certificate and key cannot be served."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A new serving certificate with its key, and the authority that signed it, all as PEM.

    Nobody has the authority's key any more: it signs nothing else.
    """

    authority: bytes
    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and key that can be served: they belong together and `issuer` is trusted."""

    certificate: bytes
    key: bytes = field(repr=False)
    leaf: x509.Certificate
    issuer: x509.Certificate
    server_names: frozenset[x509.GeneralName]

    @property
    def expiry(self) -> datetime:
        """The last moment of its validity."""
        return self.leaf.not_valid_after_utc

    @property
    def renew_at(self) -> datetime:
        """When a successor is to be made."""
        made_at = self.leaf.not_valid_before_utc + _BACKDATED
        return made_at + (self.expiry - made_at) * _RENEWED_AFTER

    def covers(self, server_names: Iterable[x509.GeneralName]) -> bool:
        """Whether a client that asks for any of `server_names` accepts it."""
        return self.server_names.issuperset(server_names)


def server_names(service: str, namespace: str, extra: Iterable[str] = ()) -> tuple[x509.GeneralName, ...]:
    """The names under which a Service is reached inside its cluster, and `extra` DNS names or IP addresses.

    Raises `InvalidServerName`.
    """
    host = f"{service}.{namespace}"
    texts = (f"{host}.svc", f"{host}.svc.cluster.local", host, *extra)
    return tuple(dict.fromkeys(_server_name(text) for text in texts))


def issue(server_names: Iterable[x509.GeneralName], now: datetime, lifetime: timedelta) -> Issued:
    """A certificate for `server_names` from a new authority, both valid from shortly before `now` for `lifetime`.

    It holds what strict clients ask for: Go, and OpenSSL with `X509_V_FLAG_X509_STRICT`.
    """
    authority_key, key = _new_key(), _new_key()
    # Two authorities stand in one bundle: with names of their own no client can take one for the other.
    authority_name = _common_name(f"{names.PRODUCT} {x509.random_serial_number():x}")
    authority_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())

    def signed(builder: x509.CertificateBuilder) -> bytes:
        certificate = (
            builder.issuer_name(authority_name)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BACKDATED)
            .not_valid_after(now + lifetime)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority_id), critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

    authority = (
        x509.CertificateBuilder()
        .subject_name(authority_name)
        .public_key(authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(authority_id, critical=False)
    )
    leaf = (
        x509.CertificateBuilder()
        .subject_name(_common_name(names.PRODUCT))
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(server_names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Issued(
        authority=signed(authority),
        certificate=signed(leaf),
        key=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def usable_pair(certificate: bytes, key: bytes, authorities: Sequence[x509.Certificate], now: datetime) -> Pair:
    """The PEM pair, if a server can serve it at `now` to clients that trust `authorities`.

    Raises `UnusablePair`.
    """
    try:
        leaf = x509.load_pem_x509_certificate(certificate)
        extensions = leaf.extensions
    except ValueError as error:
        raise UnusablePair("the certificate cannot be read") from error
    try:
        public_key = serialization.load_pem_private_key(key, password=None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UnusablePair("the key cannot be read") from error
    if leaf.public_key() != public_key:
        raise UnusablePair("certificate and key do not belong together")
    if now < leaf.not_valid_before_utc:
        raise UnusablePair(f"valid only from {leaf.not_valid_before_utc.isoformat()} on")
    if now > leaf.not_valid_after_utc:
        raise UnusablePair(f"expired at {leaf.not_valid_after_utc.isoformat()}")
    issuer = next((authority for authority in authorities if issued_by(leaf, authority)), None)
    if issuer is None:
        raise UnusablePair("none of the authorities beside it signed it")
    try:
        found = frozenset(extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        found = frozenset()
    return Pair(certificate, key, leaf, issuer, found)


def issued_by(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether `authority` signed `leaf`."""
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def read_bundle(pem: bytes, now: datetime) -> tuple[x509.Certificate, ...]:
    """The authorities of a bundle that have not expired at `now`; none of a bundle that cannot be read."""
    try:
        authorities = x509.load_pem_x509_certificates(pem)
    except ValueError:
        return ()
    return tuple(authority for authority in authorities if now <= authority.not_valid_after_utc)


def write_bundle(authorities: Iterable[x509.Certificate]) -> bytes:
    """The authorities as PEM, in the order given."""
    return b"".join(authority.public_bytes(serialization.Encoding.PEM) for authority in authorities)


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _server_name(text: str) -> x509.GeneralName:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        name = text.lower()
        if len(name) > _LONGEST_DNS_NAME or not _DNS_NAME.fullmatch(name):
            raise InvalidServerName(
                f"{text!r}: write a DNS name such as webhook.example.org, or an IP address"
            ) from None
        return x509.DNSName(name)
    # From its bytes, since the zone in fe80::1%eth0 means nothing in a certificate.
    return x509.IPAddress(ipaddress.ip_address(address.packed))
