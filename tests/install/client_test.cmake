# Installs the client library (components `client` and `kernels`) to a prefix of its own, and builds its
# example there by find_package and by pkg-config. The example asks a server of its own.
#
# Set before: BUILD_DIR, EXAMPLE_DIR, WORK_DIR, CXX_COMPILER, LIBDIR, SERVER.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
file(REMOVE_RECURSE "${WORK_DIR}")
set(prefix "${WORK_DIR}/prefix")
foreach(component IN ITEMS kernels client)
  run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --component ${component} --prefix "${prefix}")
endforeach()
if(NOT EXISTS "${prefix}/share/histogram/proto/histogram/v1/histogram.proto")
  message(FATAL_ERROR "histogram.proto is not installed")
endif()

run("${CMAKE_COMMAND}" -S "${EXAMPLE_DIR}" -B "${WORK_DIR}/build" "-DCMAKE_PREFIX_PATH=${prefix}"
  "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" -DCMAKE_BUILD_TYPE=Debug)
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/build")
find_program(PKG_CONFIG pkg-config REQUIRED)
set(ENV{PKG_CONFIG_PATH} "${prefix}/${LIBDIR}/pkgconfig")
run("${PKG_CONFIG}" --cflags --libs histogram-client)
separate_arguments(flags UNIX_COMMAND "${output}")
run("${CXX_COMPILER}" -std=c++20 "${EXAMPLE_DIR}/letters.cc" ${flags} -o "${WORK_DIR}/with-pkg-config")

# A server on a unix socket of its own, which ends with the shell that started it.
file(WRITE "${WORK_DIR}/letters.txt" "aaa fff gg z 123")
file(WRITE "${WORK_DIR}/ask.sh" [=[
set -eu
server="$1" folder="$2"
"$server" --listen "unix:$folder/socket" --metrics-listen off --port-file "$folder/ports" \
  --log-level warn &
trap 'kill -TERM $!; wait $!' EXIT
waited=0
until [ -s "$folder/ports" ]; do
  kill -0 $!
  waited=$((waited + 1)) && [ $waited -lt 1200 ]
  sleep 0.05
done
for program in build/letters with-pkg-config; do
  "$folder/$program" "unix:$folder/socket" "$folder/letters.txt"
done
! "$folder/build/letters" "unix:$folder/socket" "$folder/nothing there" 2>&1
]=])
run(sh "${WORK_DIR}/ask.sh" "${SERVER}" "${WORK_DIR}")
set(expected "a-f 6\ng-l 2\nm-r 0\ns-x 0\ny-z 1\nelse 7\n")
string(FIND "${output}" "${expected}${expected}" found)
if(found LESS 0 OR NOT output MATCHES "nothing there")
  message(FATAL_ERROR "the examples printed\n${output}")
endif()
