include(GoogleTest)

# The tests of a googletest program, each one of ctest's. A sanitized process takes longer to start than
# most tests take: there SHARDS tests of ctest (default 1), called TARGET.0 and so on, run all of them.
#
#   histogram_gtests(target PREFIX name SHARDS number LABELS label TIMEOUT seconds ENVIRONMENT name=value)
#
# ctest reports a skipped test, and why, only where it is one of its own: without a sanitizer.
function(histogram_gtests target)
  cmake_parse_arguments(PARSE_ARGV 1 of "" "PREFIX;SHARDS;LABELS;TIMEOUT;ENVIRONMENT" "")
  set(properties "")
  foreach(property LABELS TIMEOUT ENVIRONMENT)
    if(of_${property})
      list(APPEND properties ${property} "${of_${property}}")
    endif()
  endforeach()
  if(NOT HISTOGRAM_SANITIZE)
    gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${of_PREFIX}"
      PROPERTIES ${properties})
    return()
  endif()
  if(NOT of_SHARDS)
    set(of_SHARDS 1)
  endif()
  math(EXPR last "${of_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(name ${of_PREFIX}${target}.${shard})
    add_test(NAME ${name} COMMAND "${CMAKE_COMMAND}" -E env GTEST_TOTAL_SHARDS=${of_SHARDS}
      GTEST_SHARD_INDEX=${shard} $<TARGET_FILE:${target}>)
    set_tests_properties(${name} PROPERTIES ${properties} TIMEOUT 1500)
  endforeach()
endfunction()
