# Decides what is built where its packages are: HISTOGRAM_TESTS_ENABLED, HISTOGRAM_BENCH_ENABLED and
# HISTOGRAM_PYTHON_ENABLED say so to the rest of the build, HISTOGRAM_LIBRARY_ONLY that the library, and
# the Python package where that is enabled, is all there is to build.

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

# The interpreter that the package is built for is python/CMakeLists.txt's choice: here, where AUTO, the
# one of the tests. A sanitizer's runtime would have to be loaded before Python is.
set(histogram_missing "")
if(HISTOGRAM_PYTHON STREQUAL "AUTO")
  set(HISTOGRAM_PYTHON_HOME "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  if(HISTOGRAM_SANITIZE OR HISTOGRAM_STATIC OR NOT HISTOGRAM_TESTS_ENABLED)
    set(HISTOGRAM_PYTHON OFF)
  elseif(NOT EXISTS "${HISTOGRAM_PYTHON_HOME}")
    list(APPEND histogram_missing "${HISTOGRAM_PYTHON_HOME}")
  else()
    execute_process(COMMAND "${HISTOGRAM_PYTHON_HOME}" -c "import nanobind, os, sysconfig; \
os.stat(sysconfig.get_path('include') + '/Python.h')" RESULT_VARIABLE histogram_result ERROR_QUIET)
    if(NOT histogram_result EQUAL 0)
      list(APPEND histogram_missing "nanobind and Python.h")
    endif()
  endif()
endif()
histogram_decide(HISTOGRAM_PYTHON_ENABLED HISTOGRAM_PYTHON "Python package" "${histogram_missing}")

set(HISTOGRAM_LIBRARY_ONLY ON)
if(HISTOGRAM_SERVICE OR HISTOGRAM_OBSERVABILITY OR HISTOGRAM_TESTS_ENABLED OR HISTOGRAM_BENCH_ENABLED
    OR HISTOGRAM_CUDA STREQUAL "ON")
  set(HISTOGRAM_LIBRARY_ONLY OFF)
endif()
