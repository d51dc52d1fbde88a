# Installs the library (component `kernels`) to a prefix of its own and uses it there as a user would: by
# find_package and by pkg-config. Nothing but a C++20 compiler may be needed, and only the public headers
# may be there.
#
# Set before: BUILD_DIR, EXAMPLE_DIR, WORK_DIR, CXX_COMPILER, BUILD_TYPE, LIBDIR, CUDA.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
file(REMOVE_RECURSE "${WORK_DIR}")
set(prefix "${WORK_DIR}/prefix")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --component kernels --prefix "${prefix}")

file(GLOB_RECURSE headers RELATIVE "${prefix}/include" "${prefix}/include/*")
list(SORT headers)
set(expected binning.h histogram.h number_text.h plan.h result.h rows.h sample_statistics.h
  sample_type.h statistics.h tally.h typed.h usable_cores.h values.h)
if(CUDA)
  list(INSERT expected 1 cuda.h)
endif()
list(TRANSFORM expected PREPEND histogram/)
expect("the installed headers" "${headers}" "${expected}")

# A user need not have absl, nor CUDA: neither to find the package nor to link the archive.
run("${CMAKE_COMMAND}" -S "${EXAMPLE_DIR}" -B "${WORK_DIR}/build"
  "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
  -DCMAKE_DISABLE_FIND_PACKAGE_absl=ON -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
  "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}")
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/build")
file(GLOB_RECURSE archives "${prefix}/${LIBDIR}/*.a")
expect("the installed archives" "${archives}" "${prefix}/${LIBDIR}/libhistogram.a")
find_program(NM nm REQUIRED)
run("${NM}" -C "${prefix}/${LIBDIR}/libhistogram.a")
if(output MATCHES "absl|cuda[A-Z]")
  message(FATAL_ERROR "libhistogram.a needs ${CMAKE_MATCH_0}:\n${output}")
endif()

file(WRITE "${WORK_DIR}/letters.txt" "aaa fff gg z 123")
set(expected "a-f 6\ng-l 2\nm-r 0\ns-x 0\ny-z 1\nelse 7\n")
run("${WORK_DIR}/build/letters" "${WORK_DIR}/letters.txt")
expect("letters" "${output}" "${expected}")
run("${WORK_DIR}/build/chunks" "${WORK_DIR}/letters.txt")
if(NOT output MATCHES "\n6 8\n7 1\n.*mean 75.1875, median 97, quartiles 44.75 and 102, entropy of the bins 1.70282 bits")
  message(FATAL_ERROR "chunks printed\n${output}")
endif()

find_program(PKG_CONFIG pkg-config REQUIRED)
set(ENV{PKG_CONFIG_PATH} "${prefix}/${LIBDIR}/pkgconfig")
run("${PKG_CONFIG}" --cflags --libs histogram)
separate_arguments(flags UNIX_COMMAND "${output}")
# All warnings, since what a header warns of is its user's trouble.
run("${CXX_COMPILER}" -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
  "${EXAMPLE_DIR}/letters.cc" ${flags} -o "${WORK_DIR}/with-pkg-config")
run("${WORK_DIR}/with-pkg-config" "${WORK_DIR}/letters.txt")
expect("letters by pkg-config" "${output}" "${expected}")
