# Run at each build (cmake -P): writes OUTPUT with what this build is, and only when that changed.
if(NOT COMMIT)
  find_package(Git QUIET)
  if(Git_FOUND)
    execute_process(COMMAND "${GIT_EXECUTABLE}" -C "${SOURCE_DIR}" describe --always --dirty --exclude=*
      OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
if(NOT COMMIT)
  set(COMMIT "unknown")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT [[
// Written by the build; see server/config/build.cmake.
#define HISTOGRAM_BUILD_VERSION "@VERSION@"
#define HISTOGRAM_BUILD_COMMIT "@COMMIT@"
#define HISTOGRAM_BUILD_COMPILER "@COMPILER@"
#define HISTOGRAM_BUILD_TYPE "@TYPE@"
]])
