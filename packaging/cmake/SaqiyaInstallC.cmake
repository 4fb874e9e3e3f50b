# The C library: shared object, headers, pkg-config file, CMake package. Component "c".
# Shared only: a static one would ask every C consumer for a C++ linker and our dependencies.
include(CMakePackageConfigHelpers)

add_library(saqiya SHARED)
target_link_libraries(saqiya PRIVATE saqiya_capi)
set_target_properties(saqiya PROPERTIES
  LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR})
target_include_directories(saqiya INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/capi/include>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
saqiya_export_only(saqiya SAQIYA_${PROJECT_VERSION_MAJOR} ${SAQIYA_SYMBOLS})
if(NOT SAQIYA_SANITIZE)
  target_link_options(saqiya PRIVATE -Wl,-z,defs)
endif()

# Both the .pc file and the CMake package find their prefix from where they lie, so a prefix may be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}"
           OUTPUT_VARIABLE SAQIYA_LIBDIR)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}"
           OUTPUT_VARIABLE SAQIYA_INCLUDEDIR)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
           OUTPUT_VARIABLE SAQIYA_PC_PREFIX)
configure_file("${PROJECT_SOURCE_DIR}/packaging/cmake/saqiya.pc.in"
               "${PROJECT_BINARY_DIR}/saqiya.pc" @ONLY)
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/packaging/cmake/saqiyaConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/saqiyaConfig.cmake"
  INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/saqiya"
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/saqiyaConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)

install(TARGETS saqiya EXPORT saqiya
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT c)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/capi/include/saqiya"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT c FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES "${PROJECT_BINARY_DIR}/saqiya.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT c)
install(EXPORT saqiya NAMESPACE saqiya:: FILE saqiyaTargets.cmake
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/saqiya" COMPONENT c)
install(FILES "${PROJECT_BINARY_DIR}/saqiyaConfig.cmake" "${PROJECT_BINARY_DIR}/saqiyaConfigVersion.cmake"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/saqiya" COMPONENT c)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/packaging/THIRD-PARTY.txt"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT c)
