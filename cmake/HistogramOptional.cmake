# Decides what is built where its packages are: HISTOGRAM_TESTS_ENABLED and HISTOGRAM_BENCH_ENABLED say
# so to the rest of the build, HISTOGRAM_LIBRARY_ONLY that the library is all there is to build.

# Sets OUT to the answer for the option NAME: AUTO looks for the packages, ON insists on them.
# `missing` names the packages that were looked for and not found.
function(histogram_decide out name what missing)
  set(enabled ON)
  if(NOT ${name})
    set(enabled OFF)
  elseif(missing)
    string(REPLACE ";" ", " missing "${missing}")
    if(NOT ${name} STREQUAL "AUTO")
      message(FATAL_ERROR "${name} is ${${name}}, but these were not found: ${missing}. "
        "scripts/install-deps --with-tests installs them; ${name}=AUTO leaves out what needs them.")
    endif()
    message(STATUS "${what}: left out, not found: ${missing} (scripts/install-deps --with-tests installs them)")
    set(enabled OFF)
  endif()
  set(${out} ${enabled} PARENT_SCOPE)
endfunction()

set(histogram_missing "")
if(HISTOGRAM_TESTS)
  find_package(GTest QUIET)
  if(NOT TARGET GTest::gtest_main)
    list(APPEND histogram_missing GTest)
  endif()
  if(NOT TARGET GTest::gmock)
    list(APPEND histogram_missing GMock)
  endif()
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(NOT Python3_Interpreter_FOUND)
    list(APPEND histogram_missing "Python 3")
  endif()
endif()
histogram_decide(HISTOGRAM_TESTS_ENABLED HISTOGRAM_TESTS "Tests" "${histogram_missing}")

set(histogram_missing "")
if(HISTOGRAM_BENCH)
  find_package(benchmark QUIET)
  if(NOT TARGET benchmark::benchmark)
    list(APPEND histogram_missing "Google Benchmark")
  endif()
endif()
histogram_decide(HISTOGRAM_BENCH_ENABLED HISTOGRAM_BENCH "Benchmarks" "${histogram_missing}")

set(HISTOGRAM_LIBRARY_ONLY ON)
if(HISTOGRAM_SERVICE OR HISTOGRAM_OBSERVABILITY OR HISTOGRAM_TESTS_ENABLED OR HISTOGRAM_BENCH_ENABLED
    OR HISTOGRAM_CUDA STREQUAL "ON")
  set(HISTOGRAM_LIBRARY_ONLY OFF)
endif()
