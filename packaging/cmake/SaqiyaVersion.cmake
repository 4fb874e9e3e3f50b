# The version has one source: the SAQIYA_VERSION_* macros of the public header.

# saqiya_read_version(HEADER OUT): sets OUT to "major.minor.patch".
function(saqiya_read_version header out)
  file(READ "${header}" text)
  set(version "")
  foreach(part MAJOR MINOR PATCH)
    if(NOT text MATCHES "#define SAQIYA_VERSION_${part} ([0-9]+)")
      message(FATAL_ERROR "SAQIYA_VERSION_${part} not found in ${header}")
    endif()
    list(APPEND version "${CMAKE_MATCH_1}")
  endforeach()
  list(JOIN version "." version)
  set(${out} "${version}" PARENT_SCOPE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
endfunction()
