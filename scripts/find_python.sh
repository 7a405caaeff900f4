#!/bin/sh
# Prints a Python that can run aiozarr: `find_python.sh oldest | newest`; nothing, and status 1, if there is none.
# A name on PATH may be a shim that leads nowhere, so each candidate is asked for its version.
set -u
probe='
import sys, sysconfig, venv, ensurepip
ok = (3, 11) <= sys.version_info[:2] <= (3, 14) and sys.version_info.releaselevel == "final"
ok = ok and sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
print(sys.version_info.minor if ok else "", sys.executable)
'
candidates() {
    for name in python3 python3.11 python3.12 python3.13 python3.14; do
        command -v "$name" 2>/dev/null
    done
    # pyenv's own folder, wherever its command lies: its shims answer for the chosen version alone.
    pyenv=$(command -v pyenv 2>/dev/null) && ls -d "${pyenv%/*/*}"/versions/3.1[1-4].*/bin/python 2>/dev/null
    ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[1-4].*/bin/python 2>/dev/null
}
found=$(candidates | while read -r python; do
    "$python" -c "$probe" 2>/dev/null | grep -E '^[0-9]+ ' || true
done | sort -s -n -k 1,1)
case "${1:-oldest}" in
oldest) line=$(printf '%s\n' "$found" | head -n 1) ;;
newest) line=$(printf '%s\n' "$found" | tail -n 1) ;;
*) echo "usage: $0 oldest | newest" >&2; exit 2 ;;
esac
[ -n "$line" ] || exit 1
printf '%s\n' "${line#* }"
