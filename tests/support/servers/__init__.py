"""Servers of other makers for the tests, each a process of its own (or a few) on free ports of this machine."""

from servers.azurite import Azurite, azurite
from servers.nginx import Nginx, nginx
from servers.process import NotInstalled
from servers.radosgw import radosgw
from servers.rclone import rclone
from servers.s3 import S3Server
from servers.s3rver import s3rver

__all__ = ["Azurite", "Nginx", "NotInstalled", "S3Server", "azurite", "nginx", "radosgw", "rclone", "s3rver"]
