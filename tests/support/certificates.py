"""TLS certificates for tests: a new authority, and the certificates that it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """A certificate authority; `trust()` is a client's context that trusts this authority alone."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def trust(self) -> ssl.SSLContext:
        """Return a client's context."""
        context = ssl.create_default_context(cadata=_pem(self.certificate).decode())
        # 3.13 asks for extensions that matter to no test here.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        return context

    def pem(self) -> bytes:
        """Return the certificate in PEM."""
        return _pem(self.certificate)

    def server(self, address: str = "127.0.0.1", *, expired: bool = False) -> ssl.SSLContext:
        """Return the context of a server at `address`."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        certificate = (
            _builder(address, key, self.certificate.subject, NOW - DAY if expired else NOW + DAY)
            .add_extension(names, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        with TemporaryDirectory() as directory:
            path = Path(directory) / "server.pem"
            path.write_bytes(private + _pem(certificate))
            context.load_cert_chain(path)
        return context


@cache
def authority() -> Authority:
    """Return the authority of this process."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    builder = _builder("tests", key, name, NOW + DAY)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return Authority(key, builder.sign(key, hashes.SHA256()))


def _builder(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: x509.Name, until: dt.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 2 * DAY)
        .not_valid_after(until)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
