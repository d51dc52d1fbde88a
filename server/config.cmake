# Configuration and log of the server, without gRPC, CUDA and Prometheus. Included by server/metrics,
# which stands in the build wherever the service does.

# The commit is looked up at each build, so that it is never that of an earlier one. A build outside of
# a repository (a container) passes -DHISTOGRAM_COMMIT=...
set(HISTOGRAM_COMMIT "" CACHE STRING "Commit of this build; empty asks git")
set(histogram_build_header "${PROJECT_BINARY_DIR}/generated/server/config_build.h")
add_custom_target(histogram_build_info
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE_DIR=${PROJECT_SOURCE_DIR}" "-DOUTPUT=${histogram_build_header}"
    "-DCOMMIT=${HISTOGRAM_COMMIT}" "-DVERSION=${PROJECT_VERSION}"
    "-DCOMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" "-DTYPE=${CMAKE_BUILD_TYPE}"
    -P "${PROJECT_SOURCE_DIR}/server/config_build.cmake"
  BYPRODUCTS "${histogram_build_header}"
  COMMENT "Looking up the commit" VERBATIM)

add_library(histogram_server_config STATIC
  "${PROJECT_SOURCE_DIR}/server/config.cc"
  "${PROJECT_SOURCE_DIR}/server/config_check.cc"
  "${PROJECT_SOURCE_DIR}/server/config_file.cc"
  "${PROJECT_SOURCE_DIR}/server/config_settings.cc"
  "${PROJECT_SOURCE_DIR}/server/config_table.cc"
  "${PROJECT_SOURCE_DIR}/server/config_text.cc"
  "${PROJECT_SOURCE_DIR}/server/config_values.cc")
add_dependencies(histogram_server_config histogram_build_info)
# Nothing here is hot, but the option parser takes long to parse and optimise.
set_target_properties(histogram_server_config PROPERTIES UNITY_BUILD ON)
if(HISTOGRAM_SANITIZE)
  target_compile_options(histogram_server_config PRIVATE -O0)
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(histogram_server_config PRIVATE -O1)
endif()
target_include_directories(histogram_server_config PRIVATE "${PROJECT_BINARY_DIR}/generated")
target_link_libraries(histogram_server_config
  PUBLIC histogram_build absl::status absl::statusor absl::any_invocable
  PRIVATE absl::strings CLI11::CLI11)

add_library(histogram_server_logging STATIC
  "${PROJECT_SOURCE_DIR}/server/logging.cc" "${PROJECT_SOURCE_DIR}/server/logging_observer.cc")
target_link_libraries(histogram_server_logging
  PUBLIC histogram_build absl::status absl::span absl::statusor absl::any_invocable
  PRIVATE spdlog::spdlog nlohmann_json::nlohmann_json)
