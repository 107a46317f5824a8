#!/bin/sh
# Makes base images from Debian's packages, for machines that reach no image registry: `make image-base`, then
# `make image BASE_IMAGE=localhost/paimon-index-base MAVEN_IMAGE=localhost/paimon-index-maven`. Needs debootstrap,
# podman and the superuser.
set -eu
suite=${SUITE:-bookworm}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make_image() {
  debootstrap --variant=minbase --include="$2" "$suite" "$work/root"
  rm -rf "$work"/root/var/cache/apt/* "$work"/root/var/lib/apt/lists/* "$work"/root/usr/share/doc/* "$work"/root/usr/share/man/*
  tar -C "$work/root" -c . | podman import - "localhost/$1"
  rm -rf "$work/root"
}

make_image paimon-index-base python3,python3-venv,ca-certificates
make_image paimon-index-maven maven,openjdk-17-jdk-headless,ca-certificates,ca-certificates-java
