"""Certificates for admins that speak https."""

from __future__ import annotations

from pathlib import Path

import trustme


def write_certificate(directory: Path) -> tuple[str, ...]:
    """Write cert.pem, key.pem and the ca.pem to check them by; returns the admin's options."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    certificate.private_key_pem.write_to_path(directory / "key.pem")
    for number, part in enumerate(certificate.cert_chain_pems):
        part.write_to_path(directory / "cert.pem", append=number > 0)
    return "--tlsCertFile", str(directory / "cert.pem"), "--tlsKeyFile", str(directory / "key.pem")
