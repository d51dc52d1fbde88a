# Static linking: a binary that needs only libc and libm at run time, so that it runs on any glibc
# system of the same age or newer. The distribution's CMake files name shared libraries only, though
# archives lie beside most of them; the others come from scripts/static-deps.
set(HISTOGRAM_STATIC_DEPS "${PROJECT_SOURCE_DIR}/build/static-deps" CACHE PATH
  "Where scripts/static-deps has put its archives")
if(HISTOGRAM_SERVICE AND NOT EXISTS "${HISTOGRAM_STATIC_DEPS}/lib/libgrpc++.a")
  message(FATAL_ERROR "HISTOGRAM_STATIC=ON needs archives of gRPC, prometheus-cpp, spdlog and fmt, "
    "but ${HISTOGRAM_STATIC_DEPS}/lib has none: run scripts/static-deps first.")
endif()
set(CMAKE_SKIP_RPATH ON)  # nothing of ours is loaded at run time

# Points each imported shared library of this directory at an archive of the same name. A library
# without one is left alone; scripts/build-static checks the outcome with ldd.
function(histogram_link_archives)
  get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS imported)
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL "SHARED_LIBRARY" AND NOT type STREQUAL "UNKNOWN_LIBRARY")
      continue()
    endif()
    foreach(property IN ITEMS IMPORTED_LOCATION IMPORTED_LOCATION_NONE IMPORTED_LOCATION_RELEASE)
      get_target_property(location ${target} ${property})
      if(NOT location MATCHES "\\.so(\\.[0-9.]+)?$")
        continue()
      endif()
      string(REGEX REPLACE "\\.so(\\.[0-9.]+)?$" ".a" beside "${location}")
      get_filename_component(name "${beside}" NAME)
      foreach(archive IN ITEMS "${HISTOGRAM_STATIC_DEPS}/lib/${name}" "${beside}")
        if(EXISTS "${archive}")
          set_target_properties(${target} PROPERTIES ${property} "${archive}")
          break()
        endif()
      endforeach()
    endforeach()
  endforeach()
endfunction()
histogram_link_archives()

# gRPC's CMake files find re2 through pkg-config, which answers "-lre2".
if(TARGET re2::re2)
  find_library(HISTOGRAM_RE2_ARCHIVE libre2.a REQUIRED)
  set_target_properties(re2::re2 PROPERTIES INTERFACE_LINK_LIBRARIES
    "${HISTOGRAM_RE2_ARCHIVE};Threads::Threads")
endif()

target_link_options(histogram_build INTERFACE -static-libstdc++ -static-libgcc -Wl,--gc-sections)
target_compile_options(histogram_build INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections -fdata-sections>)
