#!/bin/sh
# Makes a base image from Debian's packages, for machines that reach no image registry: `make image-base`, then
# `make image BASE_IMAGE=localhost/paimon-index-base`. Needs debootstrap, podman and the superuser.
set -eu
suite=${SUITE:-bookworm}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$work/root"
rm -rf "$work"/root/var/cache/apt/* "$work"/root/var/lib/apt/lists/* "$work"/root/usr/share/doc/* "$work"/root/usr/share/man/*
tar -C "$work/root" -c . | podman import - localhost/paimon-index-base
