"""The common part of the S3 servers: an endpoint, its options, and buckets created by a signed request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

REGION = "us-east-1"


@dataclass(frozen=True)
class S3Server:
    """A running S3 server.

    Attributes:
        name, version: which server it is.
        endpoint_url: where it is.
        key, secret: what it accepts.
    """

    name: str
    version: str
    endpoint_url: str
    key: str = "AKtest"
    secret: str = "SKtest"

    @property
    def storage_options(self) -> dict[str, Any]:
        """The storage options that reach it."""
        return {"endpoint_url": self.endpoint_url, "key": self.key, "secret": self.secret, "region": REGION}

    def create_bucket(self, name: str) -> None:
        """Create a bucket, of a name not used before."""
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        url = f"{self.endpoint_url}/{name}"
        request = AWSRequest("PUT", url, data=b"")
        S3SigV4Auth(Credentials(self.key, self.secret), "s3", REGION).add_auth(request)
        with urlopen(Request(url, data=b"", method="PUT", headers=dict(request.headers)), timeout=30):
            pass
