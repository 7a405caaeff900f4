#!/bin/sh
# Says which servers `make test-servers` can use on this machine, and how to get the others. It fails if there is none.
set -u
some=1
look() { # program, what for, how to install
    if command -v "$1" >/dev/null 2>&1; then
        echo "found    $1: $2"
        some=0
    else
        echo "missing  $1: $2. To install: $3"
    fi
}
PATH=$PATH:/usr/sbin:/usr/local/sbin
look nginx "HTTP reads, ranges and conditions" "apt-get install nginx libnginx-mod-http-lua"
if [ "$some" -ne 0 ]; then
    echo "No server is installed: there is nothing to test against. 'make test' needs none of them." >&2
fi
exit "$some"
