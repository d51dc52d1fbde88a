#!/usr/bin/env bash
# What bash offers, by the completion script from where `cmake --install` puts it.
#
#   completion_test.sh CMAKE BUILD_FOLDER WORK_FOLDER
set -euo pipefail
cmake=$1 build=$2 work=$3
rm -rf "${work}"
"${cmake}" --install "${build}" --component completion --prefix "${work}/prefix" > /dev/null
# shellcheck disable=SC1091
. "${work}/prefix/share/bash-completion/completions/histogram-client"
[[ "$(complete -p histogram-client)" == *"-o default"* ]]  # files where nothing else is offered
asked="$(complete -p histogram-client | sed "s/.*-C '\(.*\)'.*/\1/")"
PATH="${build}/bin:${PATH}"

failed=0
# expect WANTED WORD...: what is offered for the last of the words, with commas between.
expect() {
  local want=$1 got
  shift
  got="$(COMP_LINE="histogram-client $*" COMP_POINT=999 ${asked} histogram-client "${!#}" x | paste -s -d ,)"
  [[ ${got} == "${want}" ]] && return
  printf 'histogram-client %s: bash offers "%s", not "%s"\n' "$*" "${got}" "${want}" >&2
  failed=1
}

expect completion,compute comp
expect completion,compute,count co
expect --tls,--tls-ca,--tls-cert,--tls-key,--tls-server-name --tl
# The value of an option is no command, whatever it is called.
expect describe --server bench des
expect describe --server=bench des
expect json,table bench --format ''
expect csv,json,svg,table compute x --format ''
expect json describe --format=j
expect compute,compute-many bench --api c
expect '' bench --rate ''
expect liveness health l
expect --alphabet another --al
expect csv,json,svg,table --tls another --format ''
expect --statistics --bins 4 --st
expect '' compute a
expect '' a
expect '' image x -o an
expect '' --tls-ca an
exit "${failed}"
