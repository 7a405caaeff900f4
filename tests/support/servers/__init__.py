"""Servers for tests: our own in threads or processes, and those of others as processes on free ports."""

from tests.support.servers.azurite import Azurite, azurite
from tests.support.servers.nginx import Nginx, nginx
from tests.support.servers.process import NotInstalled
from tests.support.servers.radosgw import radosgw
from tests.support.servers.rclone import rclone
from tests.support.servers.s3 import S3Server
from tests.support.servers.s3rver import s3rver

__all__ = ["Azurite", "Nginx", "NotInstalled", "S3Server", "azurite", "nginx", "radosgw", "rclone", "s3rver"]
