# Sourced by ./scripts/demo and ./scripts/test: a virtual environment of our own with pinned
# dependencies, made once and made again when the pins or the package's metadata change.
# Needs Python 3.11 or later, nothing else. $DCASTLE_VENV puts it elsewhere.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${DCASTLE_VENV:-$root/.venv}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python; do
        [ -n "$candidate" ] || continue
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "dcastle: Python 3.11 or later is needed, and none was found (set PYTHON=...)" >&2
    return 4
}

set_up() {
    local python stamp
    stamp=$(cat "$root/pyproject.toml" "$root/constraints.txt" | cksum)
    if [ -f "$venv/stamp" ] && [ "$(cat "$venv/stamp")" = "$stamp" ]; then
        return
    fi
    python=$(find_python) || return
    echo "setting up $venv (once)" >&2
    "$python" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --constraint "$root/constraints.txt" --editable "$root[dev]"
    printf '%s' "$stamp" >"$venv/stamp"
}
