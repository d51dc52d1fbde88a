# What `cmake --install` puts into a prefix for users of the library (component `kernels`), and the
# package that find_package(histogram) and pkg-config find there.
include(CMakePackageConfigHelpers)
include(HistogramInstall)
set(histogram_package "${CMAKE_INSTALL_LIBDIR}/cmake/histogram")
file(GLOB histogram_headers CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/include/histogram/*.h")
if(NOT HISTOGRAM_CUDA_ENABLED)
  list(FILTER histogram_headers EXCLUDE REGEX "/cuda\\.h$")
endif()
install(FILES ${histogram_headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/histogram"
  COMPONENT kernels)
install(TARGETS histogram_kernels EXPORT histogramKernels
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT kernels)
install(EXPORT histogramKernels NAMESPACE histogram:: DESTINATION "${histogram_package}"
  COMPONENT kernels)

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/histogramConfig.cmake.in"
  "${CMAKE_CURRENT_BINARY_DIR}/histogramConfig.cmake" INSTALL_DESTINATION "${histogram_package}")
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/histogramConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/histogramConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/histogramConfigVersion.cmake"
  DESTINATION "${histogram_package}" COMPONENT kernels)

histogram_install_pc(histogram kernels)
