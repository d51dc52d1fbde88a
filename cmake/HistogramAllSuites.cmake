# Read by ctest (not by a configuring CMake) from the test file that scripts/test writes: adds the tests
# of several build folders, each name prefixed with its folder's: "asan/batching_test.0".
# Without the prefix, set_tests_properties would change the tests of that name in every folder.
#
# Set before: HISTOGRAM_SUITES, names of build folders; HISTOGRAM_BUILD_ROOT, where those lie.

# Every argument goes through a bracket literal, so that none is split or unescaped on its way.
function(add_test name)
  set(words "")
  math(EXPR last "${ARGC} - 1")
  foreach(i RANGE 1 ${last})
    string(APPEND words " [=====[${ARGV${i}}]=====]")
  endforeach()
  cmake_language(EVAL CODE "_add_test([=====[${suite}/${name}]=====]${words})")
endfunction()

function(set_tests_properties)
  set(words "")
  set(is_name TRUE)
  math(EXPR last "${ARGC} - 1")
  foreach(i RANGE ${last})
    set(word "${ARGV${i}}")
    if(word STREQUAL "PROPERTIES")
      set(is_name FALSE)
    elseif(is_name)
      set(word "${suite}/${word}")
    endif()
    string(APPEND words " [=====[${word}]=====]")
  endforeach()
  cmake_language(EVAL CODE "_set_tests_properties(${words})")
endfunction()

foreach(suite IN LISTS HISTOGRAM_SUITES)
  subdirs("${HISTOGRAM_BUILD_ROOT}/${suite}")
endforeach()
