#!/bin/sh
# Builds the environments of other implementations that `make test-peers` exchanges arrays with: make_peers.sh FOLDER PYTHON
set -eu
folder=$1
python=$2
stamp=$folder/.ready-1
[ -e "$stamp" ] && exit 0
mkdir -p "$folder"
make_one() {
    name=$1
    shift
    echo "Building $folder/$name ..."
    rm -rf "${folder:?}/$name"
    "$python" -m venv "$folder/$name"
    "$folder/$name/bin/python" -m pip install --quiet --disable-pip-version-check "$@" || {
        echo "$folder/$name could not be built: make test-peers needs $* for $("$python" --version) from a package index" >&2
        exit 1
    }
}
# zarr-python 2 ends with 2.18 and needs the numcodecs of its time.
make_one zarr2 "zarr==2.18.*" "numcodecs<0.16" ml-dtypes msgpack
make_one newest "zarr>=3.4" tensorstore zarrs zarrista rasterio netCDF4 ml-dtypes pcodec "zfpy!=1.0.1.post0" msgpack
touch "$stamp"
