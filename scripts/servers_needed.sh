#!/bin/sh
# Says which servers `make test-servers` can use on this machine, what each is for, and how to get the others.
# servers_needed.sh FOLDER: where make_servers.sh puts its own. It fails if there is none at all.
set -u
folder=${1:-.servers}
PATH=$folder/node_modules/.bin:$folder/venv/bin:$PATH:/usr/sbin:/usr/local/sbin
some=1
look() { # program, what for, how to install
    if command -v "$1" >/dev/null 2>&1; then
        echo "found    $1: $2"
        some=0
    else
        echo "missing  $1: $2. To install: $3"
    fi
}
ceph="apt-get install --no-install-recommends radosgw ceph-mon ceph-osd ceph-mgr ceph-common"
nginx="apt-get install --no-install-recommends nginx libnginx-mod-http-lua"
registry="rm -rf $folder; make test-servers"
look nginx "HTTP reads, ranges and conditions" "$nginx"
look radosgw "S3 by another maker than moto: signatures, and conditions that are heeded in part" "$ceph"
look azurite-blob "Azure Blob Storage" "apt-get install npm; $registry"
look s3rver "an S3 server that ignores conditions and answers other ranges" "apt-get install npm; $registry"
look rclone "an S3 server that ignores conditions and hides that it answers ranges" "$registry"
if [ "$some" -ne 0 ]; then
    echo "No server is installed: there is nothing to test against. 'make test' needs none of them." >&2
fi
exit "$some"
