#!/bin/sh
# Builds the image with podman, and starts the service from it: `make image`.
#
#   IMAGE         its name; paimon-index unless given
#   BASE_IMAGE, PYTHON_VERSION, MAVEN_IMAGE, EXTRAS  as the Dockerfile tells
#   PIP_CONFIG    a pip.conf for the build, where packages come from an index of one's own
#   MAVEN_SETTINGS  a settings.xml for the build, where the engine's classes come from a repository of one's own
#   CA_BUNDLE     certificates for the build, where connections go through a proxy with certificates of its own; Java
#                 has its own list, so MAVEN_IMAGE has to know them
#
# The build is isolated by chroot, which works without the rights that containers need. So is the check: it mounts
# the image's root file system read-only and starts the service there as the image's user. Only the superuser may
# do that; for others, the image is built and not tried.
set -eu
cd "$(dirname "$0")/.."

image=${IMAGE:-paimon-index}
extras=${EXTRAS-s3}
command -v podman >/dev/null || {
  echo "podman is not installed; 'docker build -t $image .' builds the same image, 'make image-check' needs neither" >&2
  exit 1
}

set -- --build-arg "EXTRAS=$extras"
for name in BASE_IMAGE PYTHON_VERSION MAVEN_IMAGE; do
  eval "value=\${$name:-}"
  [ -z "$value" ] || set -- "$@" --build-arg "$name=$value"
done
[ -z "${PIP_CONFIG:-}" ] || set -- "$@" --secret "id=pip.conf,src=$PIP_CONFIG"
[ -z "${MAVEN_SETTINGS:-}" ] || set -- "$@" --secret "id=settings.xml,src=$MAVEN_SETTINGS"
[ -z "${CA_BUNDLE:-}" ] || set -- "$@" --volume "$CA_BUNDLE:/etc/ssl/certs/ca-certificates.crt:ro"
set -- "$@" --build-arg "VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)"
set -- "$@" --build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || true)"
set -- "$@" --build-arg "CREATED=$(date -u +%Y-%m-%dT%H:%M:%SZ)"

# The OCI format has no place for the health check.
podman build --isolation chroot --format docker --tag "$image" "$@" .

[ "$(id -u)" -eq 0 ] || { echo "built $image; only the superuser can try it here"; exit 0; }
config=$(mktemp)
container=$(podman create --no-healthcheck "$image")
root=$(podman mount "$container")
trap 'podman rm --force "$container" >/dev/null; rm -f "$config"' EXIT
podman image inspect "$image" >"$config"
# The mounts are gone with the namespace.
ROOT=$root CONFIG=$config EXTRAS=$extras unshare --mount --propagation private sh -euc '
  mount --bind "$ROOT" "$ROOT"
  mount -o remount,bind,ro "$ROOT"
  mount -t proc proc "$ROOT/proc"
  mount --rbind /dev "$ROOT/dev"
  mount -t tmpfs -o mode=0755 tmpfs "$ROOT/mnt"
  mount -t tmpfs -o mode=0770,uid=10001,gid=0 tmpfs "$ROOT/var/cache/paimon-index"
  .venv/bin/python container/check.py --root "$ROOT" --config "$CONFIG" --extras "$EXTRAS"
'
