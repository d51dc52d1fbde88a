# One ctest test for each tests/FOLDER/test_*.py, called FOLDER.NAME and run from its folder.
#
#   histogram_pytests(FOLDER folder TIMEOUT seconds ENVIRONMENT name=value...)
#
# A file of which pytest ran no test (5), because it skips itself as a whole, counts as skipped. Needs
# .venv, which scripts/install-deps --with-tests makes.
function(histogram_pytests)
  cmake_parse_arguments(PARSE_ARGV 0 of "" "FOLDER;TIMEOUT" "ENVIRONMENT")
  set(python "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  file(GLOB files CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/test_*.py")
  foreach(file IN LISTS files)
    get_filename_component(name "${file}" NAME_WE)
    string(REGEX REPLACE "^test_" "${of_FOLDER}." name "${name}")
    add_test(NAME ${name} COMMAND "${python}" -m pytest -q --no-header -p no:cacheprovider "${file}"
      WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    set_tests_properties(${name} PROPERTIES LABELS ${of_FOLDER} TIMEOUT ${of_TIMEOUT}
      SKIP_RETURN_CODE 5
      ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;${of_ENVIRONMENT}")
  endforeach()
endfunction()
