# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates of one test cluster, which only it trusts."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# The Training Operator makes its own certificate unless the one it finds lasts 90 more days.
LIFETIME = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    """The certificate."""
    key: bytes
    """Its key."""


class Authority:
    """Issues the certificates of a cluster."""

    def __init__(self, name: str) -> None:
        """Make the authority's own."""
        # The Training Operator reads only an authority's key of this kind (cert-controller).
        self._key = rsa.generate_private_key(65537, 2048)
        self._name = _name(name)
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = builder.add_extension(own, False)
        # The Training Operator wants its authority to carry its name as a host name too.
        builder = builder.add_extension(_alternatives([name]), False)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.pair = Pair(_pem(self._certificate), key_pem(self._key))

    def issue(self, user: str, group: str = "", names: tuple[str, ...] = ()) -> Pair:
        """A certificate for a user of a group, or for a server of these names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(user, group), self._name, key.public_key())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), False)
        ours = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(ours, False)
        if names:
            builder = builder.add_extension(_alternatives(list(names)), False)
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), key_pem(key))


def signing_pair() -> Pair:
    """A key for the tokens of service accounts, with its public half in place of a certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return Pair(public, key_pem(key))


def key_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    """A key as PEM, in the form that every Go program reads."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def write(pair: Pair, path: Path) -> None:
    """Put a pair into `path`.crt and `path`.key."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(f"{path.name}.crt").write_bytes(pair.certificate)
    key = path.with_name(f"{path.name}.key")
    key.touch(mode=0o600)
    key.write_bytes(pair.key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(minutes=5),
        not_valid_after=now + LIFETIME,
    )


def _name(user: str, group: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


def _alternatives(names: list[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_alternative(name) for name in names])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
