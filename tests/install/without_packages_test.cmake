# Configures the project where GTest, GMock and Google Benchmark are not: tests and benchmarks are left
# out with one line each, and where they are asked for, configuring fails and says what is missing.
#
# Set before: SOURCE_DIR, WORK_DIR, CXX_COMPILER.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
file(REMOVE_RECURSE "${WORK_DIR}")
set(configure "${CMAKE_COMMAND}" -S "${SOURCE_DIR}" -B "${WORK_DIR}"
  "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" -DHISTOGRAM_CUDA=OFF
  -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON -DCMAKE_DISABLE_FIND_PACKAGE_benchmark=ON)

function(expect_lines)
  foreach(line IN LISTS ARGN)
    string(REGEX MATCHALL "${line}[^\n]*left out, not found: [^\n]*install-deps --with-tests" found "${output}")
    list(LENGTH found times)
    if(NOT times EQUAL 1)
      message(FATAL_ERROR "'${line}' is said ${times} times, not once, in:\n${output}")
    endif()
  endforeach()
endfunction()

run(${configure})
expect_lines("-- Tests: " "-- Benchmarks: ")
file(GLOB left_out "${WORK_DIR}/tests/*" "${WORK_DIR}/bench/*")
expect("folders of what is left out" "${left_out}" "")

foreach(option IN ITEMS HISTOGRAM_TESTS HISTOGRAM_BENCH)
  execute_process(COMMAND ${configure} -U HISTOGRAM_* -DHISTOGRAM_CUDA=OFF -DHISTOGRAM_SERVICE=OFF -D${option}=ON
    RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  if(result EQUAL 0 OR NOT output MATCHES "${option} is ON, but these were not found: (GTest, GMock|Google Benchmark)")
    message(FATAL_ERROR "with ${option}=ON configuring ended with ${result}:\n${output}")
  endif()
endforeach()
