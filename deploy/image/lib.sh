# shellcheck shell=bash
# Shared by scripts/image-check and scripts/release: builds the image without Docker, with buildah and
# podman and a storage of its own below build/image. Sourced after scripts/lib/common.sh, never run.

IMAGE_FOLDER="${ROOT}/build/image"
IMAGE_BASE=localhost/histogram-build-base:bookworm

export CONTAINERS_CONF="${IMAGE_FOLDER}/containers.conf"
export CONTAINERS_STORAGE_CONF="${IMAGE_FOLDER}/storage.conf"

project_version() { sed -n 's/^project(histogram VERSION \([0-9.]*\).*/\1/p' "${ROOT}/CMakeLists.txt"; }
# Both are looked up once, so that one run of a script builds one thing.
PROJECT_COMMIT="$(git -C "${ROOT}" describe --always --dirty --exclude='*' 2>/dev/null || echo unknown)"
# The date of everything in the image: that of the commit, so that it is the same wherever it is built.
PROJECT_DATE="$(git -C "${ROOT}" log -1 --format=%ct 2>/dev/null || echo 0)"
# Where the image is built from; freeze_context puts a copy in its place.
IMAGE_CONTEXT="${ROOT}"

# freeze_context FOLDER: from now on builds are of the sources as they are now, whatever is edited meanwhile.
freeze_context() {
  mkdir -p "$1"
  (
    cd "${ROOT}" || exit
    # What .dockerignore lets in, as for Docker.
    sed -n 's/^!//p' .dockerignore | xargs cp -a --parents -t "$1" .dockerignore Dockerfile
  ) || return
  IMAGE_CONTEXT="$1"
}

set_up_containers() {
  [[ "$(id -u)" -eq 0 ]] || die "this needs root: containers with limits and published ports"
  install_tools buildah podman runc conmon netavark aardvark-dns iptables mmdebstrap jq openssl python3-venv
  mkdir -p "${IMAGE_FOLDER}/storage" "${IMAGE_FOLDER}/run" "${IMAGE_FOLDER}/ccache"
  # crun, podman's first choice, needs cgroups v2; runc does with either.
  cat >"${CONTAINERS_CONF}" <<'EOF'
[containers]
default_ulimits = ["nofile=16384:16384", "nproc=4096:4096"]
[engine]
runtime = "runc"
EOF
  cat >"${CONTAINERS_STORAGE_CONF}" <<EOF
[storage]
driver = "overlay"
graphroot = "${IMAGE_FOLDER}/storage"
runroot = "${IMAGE_FOLDER}/run"
EOF
}

make_base_once() {
  podman image exists "${IMAGE_BASE}" && return 0
  mmdebstrap --variant=minbase --include=ca-certificates bookworm "${IMAGE_FOLDER}/base.tar" || return
  podman import "${IMAGE_FOLDER}/base.tar" "${IMAGE_BASE}" || return
  rm "${IMAGE_FOLDER}/base.tar"
}

# build_image CUDA TAG [buildah's options...]: CUDA is ON or OFF. With ON the toolkit of this machine is
# lent to the build.
build_image() {
  local cuda="$1" tag="$2" toolkit=()
  shift 2
  if [[ "${cuda}" == ON ]]; then
    [[ -x /usr/local/cuda/bin/nvcc ]] || die "no /usr/local/cuda/bin/nvcc: the CUDA image is built where the CUDA Toolkit is"
    toolkit=(-v "$(readlink -f /usr/local/cuda):/usr/local/cuda:ro")
  fi
  # The labels once more: buildah 1.28 takes a cached LABEL for the same though its arguments have changed.
  buildah build --isolation chroot --pull-never --layers --format docker \
    --label "org.opencontainers.image.version=$(project_version)" \
    --label "org.opencontainers.image.revision=${PROJECT_COMMIT}" \
    --timestamp "${PROJECT_DATE}" "${toolkit[@]}" \
    --build-arg BUILD_BASE="${BUILD_BASE:-${IMAGE_BASE}}" --build-arg CUDA="${cuda}" \
    --build-arg VERSION="$(project_version)" --build-arg COMMIT="${PROJECT_COMMIT}" \
    "$@" -t "${tag}" "${IMAGE_CONTEXT}"
}

image_layers() { podman image inspect --format '{{range .RootFS.Layers}}{{.}} {{end}}' "$1"; }
image_bytes() { podman image inspect --format '{{.Size}}' "$1"; }
