# shellcheck shell=bash
# Shared by the scripts in this folder (bash). Sourced, never run.
#
# Messages go to stderr in one voice ("==>" a step, indented lines beneath it); what a command prints
# goes to a log file, whose name and last lines are shown only when the command fails.


ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
LOG_DIR="${ROOT}/build/logs"

if [[ -t 2 && -z "${NO_COLOR:-}" && "${TERM:-dumb}" != dumb ]]; then
  BOLD=$'\e[1m' RED=$'\e[31m' GREEN=$'\e[32m' YELLOW=$'\e[33m' DIM=$'\e[2m' PLAIN=$'\e[0m'
else
  BOLD='' RED='' GREEN='' YELLOW='' DIM='' PLAIN=''
fi

say() { printf '%s==>%s %s\n' "${BOLD}" "${PLAIN}" "$*" >&2; }
note() { printf '    %s\n' "$*" >&2; }
warn() { printf '%swarning:%s %s\n' "${YELLOW}" "${PLAIN}" "$*" >&2; }
die() {
  printf '%serror:%s %s\n' "${RED}" "${PLAIN}" "$*" >&2
  exit 1
}

# Makes sure that as_root works, asking for a password now, if at all, where it can be seen.
become_root() {
  if [[ "$(id -u)" -eq 0 ]]; then return 0; fi
  command -v sudo >/dev/null || die "this needs root: run it as root, or install sudo"
  sudo -v || die "this needs root, and sudo refused"
}

# Runs a command as root: directly, or with sudo.
as_root() {
  if [[ "$(id -u)" -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

# Prints those of its arguments that are not installed.
missing_packages() {
  local installed
  # dpkg-query fails when it does not know one of them.
  installed="$({ dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null || true; } |
    awk '$1 == "ii" {print $2}')"
  comm -23 <(printf '%s\n' "$@" | sort -u) <(printf '%s\n' "${installed}" | sort -u)
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
    -o Acquire::Retries=3 -o Acquire::http::Timeout=30 -o APT::Update::Error-Mode=any "$@"
}

# install_tools PACKAGE...: with apt, those that are missing.
install_tools() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [[ ${#missing[@]} -gt 0 ]] || return 0
  step "install tools" apt_get install --no-install-recommends "${missing[@]}" ||
    die "apt could not install: ${missing[*]}"
}

# Writes behind the line of a step, once a second, how long it has run and how far ninja has come
# ("[12/94]"); ends with this shell, or when it is killed.
show_progress() {  # show_progress NAME LOG
  local begin=${SECONDS} done_of_all
  while sleep 1 && kill -0 $$ 2>/dev/null; do
    done_of_all="$(grep -oE '^\[[0-9]+/[0-9]+\]' "$2" 2>/dev/null | tail -n 1)"
    printf '\r%s==>%s %-28s %s%4d s  %s%s' "${BOLD}" "${PLAIN}" "$1" "${DIM}" $((SECONDS - begin)) \
      "${done_of_all}" "${PLAIN}" >&2
  done
}

# step NAME COMMAND...: runs the command with its output in build/logs/NAME.log and prints one line
# with the time it took; on a terminal also while it runs. On failure shows the end of the log and
# returns the command's status.
step() {
  local name="$1" log status=0 begin=${SECONDS} progress=''
  shift
  mkdir -p "${LOG_DIR}"
  log="${LOG_DIR}/${name// /-}.log"
  printf '%s==>%s %-28s ' "${BOLD}" "${PLAIN}" "${name}" >&2
  if [[ -t 2 && "${TERM:-dumb}" != dumb ]]; then
    : >"${log}"
    show_progress "${name}" "${log}" &
    progress=$!
  fi
  "$@" >"${log}" 2>&1 || status=$?
  if [[ -n "${progress}" ]]; then
    kill "${progress}" 2>/dev/null || true
    wait "${progress}" 2>/dev/null || true
    printf '\r%*s\r%s==>%s %-28s ' 60 '' "${BOLD}" "${PLAIN}" "${name}" >&2
  fi
  if [[ ${status} -eq 0 ]]; then
    printf '%sok%s %s%4d s%s\n' "${GREEN}" "${PLAIN}" "${DIM}" $((SECONDS - begin)) "${PLAIN}" >&2
  else
    printf '%sfailed%s after %d s (status %d)\n' "${RED}" "${PLAIN}" $((SECONDS - begin)) \
      "${status}" >&2
    # Without ninja's lines about what did compile.
    grep -v -E '^\[[0-9]+/[0-9]+\] [A-Z]' "${log}" | tail -n 60 | sed 's/^/    /' >&2 || true
    note "whole log: ${log}"
  fi
  return "${status}"
}

# How many compilers may run at once: one per core, but no more than memory allows (1.5 GiB each).
build_jobs() {
  local cores memory_jobs
  cores="$(nproc)"
  memory_jobs="$(awk '/MemAvailable/ {print int($2 / 1572864)}' /proc/meminfo)"
  ((memory_jobs >= 1)) || memory_jobs=1
  echo $((cores < memory_jobs ? cores : memory_jobs))
}

# One compiler cache for every build folder, large enough for all presets together.
use_ccache() {
  export CCACHE_MAXSIZE="${CCACHE_MAXSIZE:-10G}"
  # Paths inside the tree are stored relative to it, so that a second clone finds the same entries.
  export CCACHE_BASEDIR="${ROOT}"
  export CCACHE_NOHASHDIR=1
}

# configure_and_build PRESET [CMAKE_BUILD_ARGUMENT...]
# More options for configuring come from HISTOGRAM_CMAKE_OPTIONS, separated by spaces, for example
# -DHISTOGRAM_CUDA=OFF.
configure_and_build() {
  local preset="$1" options line
  shift
  read -r -a options <<<"${HISTOGRAM_CMAKE_OPTIONS:-}"
  step "configure ${preset}" cmake --preset "${preset}" -S "${ROOT}" "${options[@]}" || exit 1
  # Whether with CUDA or without, what is left out, and why.
  while read -r line; do note "${line}"; done < <(
    sed -nE 's/^-- (CUDA: .*|.*: left out, .*)/\1/p' "${LOG_DIR}/configure-${preset}.log")
  step "build ${preset}" nice -n 5 cmake --build "${ROOT}/build/${preset}" \
    --parallel "$(build_jobs)" "$@" || exit 1
}

# cuobjdump of the CUDA Toolkit, or that of .venv.
find_cuobjdump() {
  local tool
  for tool in /usr/local/cuda/bin/cuobjdump "${ROOT}"/.venv/lib/python3*/site-packages/nvidia/cu13/bin/cuobjdump; do
    if [[ -x "${tool}" ]]; then echo "${tool}" && return; fi
  done
  return 1
}

# Dies unless a program that holds CUDA code holds it for every GPU from Turing on (HISTOGRAM_EVERY_GPU).
check_gpu_code() {  # check_gpu_code PROGRAM
  local tool code ptx
  grep -qaF .nv_fatbin "$1" || return 0
  tool="$(find_cuobjdump)" || {
    warn "not checked for which GPUs $1 holds code: no cuobjdump"
    return 0
  }
  code="$("${tool}" --list-elf "$1" | grep -o 'sm_[0-9]*' | sort -Vu | paste -sd ' ')"
  ptx="$("${tool}" --list-ptx "$1" | grep -o 'sm_[0-9]*' | sort -Vu | paste -sd ' ')"
  [[ "${code}" == "sm_75 sm_80 sm_90 sm_100 sm_120" ]] || die "$1 holds machine code for: ${code}"
  [[ "${ptx}" == "sm_90 sm_120" ]] || die "$1 holds PTX for: ${ptx}"
}
