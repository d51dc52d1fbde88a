# The project inside another one: the library alone, with no package but a C++20 compiler, none of the
# programs, and none of this project's settings in the other's targets.
#
# Set before: SOURCE_DIR, WORK_DIR, CXX_COMPILER.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
file(REMOVE_RECURSE "${WORK_DIR}")
file(WRITE "${WORK_DIR}/CMakeLists.txt" "
cmake_minimum_required(VERSION 3.22)
project(outer LANGUAGES CXX)
add_subdirectory(\"${SOURCE_DIR}\" histogram)
add_executable(letters \"${SOURCE_DIR}/examples/library/letters.cc\")
target_link_libraries(letters PRIVATE histogram::kernels)
foreach(target IN ITEMS histogram_core histogram-server histogram_client)
  if(TARGET \${target})
    message(FATAL_ERROR \"\${target} came along\")
  endif()
endforeach()
install(TARGETS letters)
")
set(hidden "")
foreach(package IN ITEMS absl gRPC Protobuf GTest benchmark spdlog CLI11 prometheus-cpp Boost OpenSSL PNG
    Python3 CUDAToolkit)
  list(APPEND hidden "-DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON")
endforeach()
run("${CMAKE_COMMAND}" -S "${WORK_DIR}" -B "${WORK_DIR}/build" ${hidden}
  "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)
file(READ "${WORK_DIR}/build/compile_commands.json" commands)
if(commands MATCHES "-Werror")
  message(FATAL_ERROR "another project's build would fail on a warning:\n${commands}")
endif()
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/build")
file(WRITE "${WORK_DIR}/letters.txt" "aaa fff gg z 123")
run("${WORK_DIR}/build/letters" "${WORK_DIR}/letters.txt")
expect("letters" "${output}" "a-f 6\ng-l 2\nm-r 0\ns-x 0\ny-z 1\nelse 7\n")
# What another project installs is its own.
run("${CMAKE_COMMAND}" --install "${WORK_DIR}/build" --prefix "${WORK_DIR}/prefix")
file(GLOB_RECURSE installed RELATIVE "${WORK_DIR}/prefix" "${WORK_DIR}/prefix/*")
expect("what is installed" "${installed}" "bin/letters")
