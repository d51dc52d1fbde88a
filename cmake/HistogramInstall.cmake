# histogram_install_pc(NAME COMPONENT): installs cmake/NAME.pc.in. Its paths are relative to where it
# lies, so that a prefix may be moved, and chosen as late as `cmake --install --prefix`.
function(histogram_install_pc name component)
  file(RELATIVE_PATH histogram_pc_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
  string(REGEX REPLACE "/$" "" histogram_pc_prefix "${histogram_pc_prefix}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in" "${CMAKE_CURRENT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/${name}.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT ${component})
endfunction()
