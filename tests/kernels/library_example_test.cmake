# Installs the library, then configures, builds and runs examples/library against what was installed.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nfailed with ${result}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK_DIR}")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --component library --prefix "${WORK_DIR}/prefix")
run("${CMAKE_COMMAND}" -S "${EXAMPLE_DIR}" -B "${WORK_DIR}/build"
  "-DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
  "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}")
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/build")

file(WRITE "${WORK_DIR}/letters.txt" "aaa fff gg z 123")
run("${WORK_DIR}/build/letters" "${WORK_DIR}/letters.txt")
set(expected "a-f 6\ng-l 2\nm-r 0\ns-x 0\ny-z 1\nelse 7\n")
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "the example printed\n${output}\ninstead of\n${expected}")
endif()
