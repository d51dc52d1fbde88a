# shellcheck shell=bash
# What builds for 64-bit Arm need on a Debian 12 of another architecture: a cross compiler, an emulator, and
# a sysroot in build/arm64/sysroot. Sourced after common.sh, never run.

ARM64_SYSROOT="${ROOT}/build/arm64/sysroot"
# shellcheck disable=SC2034  # read by those that source this
ARM64_TOOLCHAIN="${ROOT}/cmake/arm64.cmake"

# The packages whose arm64 files the builds read: those of scripts/install-deps that are libraries.
arm64_packages() {
  sed -n '/^BUILD_PACKAGES=(/,/^)/p' "${ROOT}/scripts/install-deps" | grep -oE '\S+-dev\b' |
    cat - <(printf '%s\n' libc6-dev libstdc++-12-dev python3-dev base-files ca-certificates)
}

# Lists in the sysroot's own database what was unpacked, for dpkg-query --admindir.
# shellcheck disable=SC2016  # run by mmdebstrap, for which $1 is the sysroot
LIST_UNPACKED='
  echo 1 >"$1/var/lib/dpkg/info/format"
  for deb in "$1"/var/cache/apt/archives/*.deb; do
    name="$(dpkg-deb --showformat "\${Package}:\${Multi-Arch}" --show "${deb}" |
      sed "s#:same\$#:arm64#; t; s#:.*##")"
    { dpkg-deb --field "${deb}" && printf "Status: install ok installed\n\n"; } >>"$1/var/lib/dpkg/status"
    dpkg-deb --fsys-tarfile "${deb}" | tar -t | sed "s#/\$##; s#^\.\$#/.#; s#^\./#/#" \
      >"$1/var/lib/dpkg/info/${name}.list"
  done'

# Unpacks the packages; none of their scripts run, so nothing is emulated.
unpack_arm64() {  # unpack_arm64 PACKAGES
  local link
  rm -rf "${ARM64_SYSROOT}" && mkdir -p "${ARM64_SYSROOT%/*}" || return
  mmdebstrap --variant=extract --architectures=arm64 --include="$1" --extract-hook="${LIST_UNPACKED}" \
    bookworm "${ARM64_SYSROOT}" || return
  # An absolute link would lead out of the sysroot.
  find "${ARM64_SYSROOT}/usr/lib" -lname '/*' -print0 | while IFS= read -r -d '' link; do
    ln -sfn "$(realpath -ms --relative-to="${link%/*}" "${ARM64_SYSROOT}$(readlink "${link}")")" "${link}"
  done
  # gRPC's CMake files look for the plugins of protoc there; protoc runs here.
  ln -s /usr/bin/grpc_*_plugin "${ARM64_SYSROOT}/usr/bin/"
}

set_up_arm64() {
  local packages
  . /etc/os-release
  [[ "${ID} ${VERSION_ID:-}" == "debian 12" ]] || die "64-bit Arm is cross-built on Debian 12 only"
  install_tools g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user mmdebstrap cmake ninja-build python3-venv
  packages="$(arm64_packages | paste -sd ,)"
  if [[ "$(cat "${ARM64_SYSROOT}.stamp" 2>/dev/null)" == "${packages}" ]]; then return 0; fi
  step "arm64 sysroot" unpack_arm64 "${packages}" || die "could not make ${ARM64_SYSROOT}: is there a network?"
  printf '%s\n' "${packages}" >"${ARM64_SYSROOT}.stamp"
}

# Runs a program of the sysroot's architecture.
run_arm64() { qemu-aarch64 -L "${ARM64_SYSROOT}" "$@"; }
