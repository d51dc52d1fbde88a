# The compile and link settings that every target of the project shares, as one interface target.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

add_library(histogram_build INTERFACE)
target_compile_features(histogram_build INTERFACE cxx_std_20)
target_include_directories(histogram_build INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/kernels/include>)
# Unfused multiply-add: the edges of even bins are defined as i*step + lower, rounded twice.
target_compile_options(histogram_build INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-qual -Wvla -Wimplicit-fallthrough>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${HISTOGRAM_WERROR}>>:-Werror>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety>)

if(HISTOGRAM_SANITIZE)
  # GCC's guess about uninitialised variables is wrong too often in instrumented code; the optimised
  # build keeps it.
  target_compile_options(histogram_build INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${HISTOGRAM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1>)
  target_link_options(histogram_build INTERFACE -fsanitize=${HISTOGRAM_SANITIZE})
endif()
