#!/bin/sh
# Builds the wheel of this checkout and installs it into a virtual environment of its own, with its pinned dependencies
# and nothing else. The Dockerfile's first stage and `make image-check` both run this.
#
#   PYTHON=python3 container/install.sh TARGET EXTRAS
#
# TARGET  the directory of the environment; it must not exist
# EXTRAS  the storages that are not of this machine: s3, gcs, azure, oss, separated by commas; may be empty
# PYTHON        the interpreter that runs the service
# TOOLS_PYTHON  the interpreter that runs pip while installing, with ensurepip; PYTHON unless given
set -eu

target=$1
extras=$2
python=${PYTHON:-python3}
tools_python=${TOOLS_PYTHON:-$python}
source=$(cd "$(dirname "$0")/.." && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export PIP_DISABLE_PIP_VERSION_CHECK=1
export PIP_ROOT_USER_ACTION=ignore

# All that is installed has a hash in this file; an older pip does not take hashes of what is not named to it.
hashes="$source/container/hashes.txt"
sed -n '/^pip==/,/[^\\]$/p' "$hashes" >"$work/pip.txt"
"$tools_python" -m venv "$work/tools"
pip="$work/tools/bin/python -m pip"
$pip install --quiet --require-hashes --requirement "$work/pip.txt"
$pip install --quiet --require-hashes --constraint "$hashes" hatchling

$pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/wheel" "$source"
wheel=$(ls "$work"/wheel/paimon_index-*.whl)
hash=$("$tools_python" -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$wheel")

# What only has a source distribution is built in an environment of its own, by these versions and without hashes.
export PIP_BUILD_CONSTRAINT="$source/constraints.txt"
"$python" -m venv --without-pip "$target"
$pip --python "$target/bin/python" install --quiet --no-compile --require-hashes --constraint "$hashes" \
  "paimon-index${extras:+[$extras]} @ file://$wheel#sha256=$hash"

# Tests and C headers of dependencies, which nothing imports.
site=$("$target/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
find "$site" -depth -type d -name tests -exec rm -rf {} +
rm -rf "$site/numpy/_core/include" "$site/pyarrow/include" "$site/pyarrow/src"

# Compiled here, since the service may not write beside its code. Hashes hold where copies change the files' times.
"$target/bin/python" -m compileall -q --invalidation-mode unchecked-hash "$site"
