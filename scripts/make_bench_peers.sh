#!/bin/sh
# Builds the environment of the readers that `make bench` compares with: make_bench_peers.sh FOLDER PYTHON
# A package that cannot be installed here is left out, and said: its rows of the tables then say so too.
set -eu
folder=$1
python=$2
stamp=$folder/.ready-2
[ -e "$stamp" ] && exit 0
rm -rf "$folder"
mkdir -p "$folder"
echo "Building $folder with $("$python" --version) ..."
"$python" -m venv "$folder"
install() {
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@" || echo "$*: cannot be installed here" >&2
}
# zarr-python writes the arrays: nothing can be compared without it.
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check zarr
for package in obstore tensorstore zarrista zarrs; do
    install "$package"
done
# The peer zarr-aiozarr: zarr-python over this package.
install --editable .
"$folder/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' ||
    echo "The newest zarr-python needs Python 3.12: an older one is compared with." >&2
touch "$stamp"
