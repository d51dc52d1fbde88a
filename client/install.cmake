# What `cmake --install` puts into a prefix for users of the client library (component `client`; the
# package around it is of the component `kernels`).
include(HistogramInstall)
set(histogram_package "${CMAKE_INSTALL_LIBDIR}/cmake/histogram")
install(FILES "${CMAKE_CURRENT_SOURCE_DIR}/include/histogram/client.h"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/histogram" COMPONENT client)
install(DIRECTORY "${PROJECT_BINARY_DIR}/proto/generated/histogram/v1"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/histogram" COMPONENT client FILES_MATCHING PATTERN "*.h")
install(FILES "${PROJECT_SOURCE_DIR}/proto/histogram/v1/histogram.proto"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/histogram/proto/histogram/v1" COMPONENT client)
install(TARGETS histogram_client histogram_proto histogram_proto_messages EXPORT histogramClient
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT client)
install(EXPORT histogramClient NAMESPACE histogram:: DESTINATION "${histogram_package}"
  COMPONENT client)
histogram_install_pc(histogram-client client)
