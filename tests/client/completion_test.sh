#!/usr/bin/env bash
# What bash offers, by the completion script from where `cmake --install` puts it.
#
#   completion_test.sh CMAKE BUILD_FOLDER WORK_FOLDER
set -euo pipefail
cmake=$1 build=$2 work=$3
rm -rf "${work}" && mkdir -p "${work}/files"
"${cmake}" --install "${build}" --component completion --prefix "${work}/prefix" > /dev/null
# shellcheck disable=SC1091
. "${work}/prefix/share/bash-completion/completions/histogram-client"
touch "${work}/files/a file" "${work}/files/another"
cd "${work}/files"

failed=0
# expect WANTED WORD...: what is offered for the last of the words, with commas between.
expect() {
  local want=$1 got
  shift
  COMP_WORDS=(histogram-client "$@")
  COMP_CWORD=$#
  COMPREPLY=()
  _histogram_client
  got="$(IFS=, && printf '%s' "${COMPREPLY[*]}")"
  [[ ${got} == "${want}" ]] && return
  printf 'histogram-client %s: bash offers "%s", not "%s"\n' "$*" "${got}" "${want}" >&2
  failed=1
}

expect compute,completion comp
expect count,compute,completion co
expect --tls,--tls-ca,--tls-cert,--tls-key,--tls-server-name --tl
# The value of an option is no command, whatever it is called.
expect describe --server bench des
expect describe --server = bench des
expect table,json bench --format ''
expect table,json,csv,svg compute x --format ''
expect json describe --format = j
expect compute,compute-many bench --api c
expect '' bench --rate ''
expect liveness health l
expect 'a file,another' compute a
expect 'a file,another' count a
expect 'a file,another' a
expect --alphabet another --al
expect table,json,csv,svg --tls another --format ''
expect --statistics --bins 4 --st
expect another image x --output an
expect another image x -o an
expect another --tls-ca an
expect another compute x --token-file an
expect '' compute x --server an
exit "${failed}"
