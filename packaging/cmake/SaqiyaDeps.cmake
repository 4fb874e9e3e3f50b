# Third-party libraries, as the targets absl::*, saqiya::hiredis, saqiya::cares, OpenSSL::SSL and
# OpenSSL::Crypto.
#
# SAQIYA_DEPS=system takes the platform's shared libraries. SAQIYA_DEPS=static takes archives built with
# -fPIC, so that one self-contained binary results: abseil from packaging/deps/build (name its prefix in
# CMAKE_PREFIX_PATH), the others from the platform.

if(SAQIYA_DEPS STREQUAL "static")
  set(OPENSSL_USE_STATIC_LIBS TRUE)
  set(_saqiya_library_prefix "${CMAKE_STATIC_LIBRARY_PREFIX}")
  set(_saqiya_library_suffix "${CMAKE_STATIC_LIBRARY_SUFFIX}")
elseif(SAQIYA_DEPS STREQUAL "system")
  set(_saqiya_library_prefix "${CMAKE_SHARED_LIBRARY_PREFIX}")
  set(_saqiya_library_suffix "${CMAKE_SHARED_LIBRARY_SUFFIX}")
else()
  message(FATAL_ERROR "SAQIYA_DEPS must be system or static, not '${SAQIYA_DEPS}'")
endif()

# saqiya_find_library(NAME HEADER LIBRARY): an imported target saqiya::NAME.
function(saqiya_find_library name header library)
  find_path(SAQIYA_${name}_INCLUDE_DIR "${header}" REQUIRED)
  find_library(SAQIYA_${name}_LIBRARY
    NAMES "${_saqiya_library_prefix}${library}${_saqiya_library_suffix}" REQUIRED)
  mark_as_advanced(SAQIYA_${name}_INCLUDE_DIR SAQIYA_${name}_LIBRARY)
  add_library(saqiya::${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(saqiya::${name} PROPERTIES
    IMPORTED_LOCATION "${SAQIYA_${name}_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${SAQIYA_${name}_INCLUDE_DIR}")
endfunction()

find_package(Threads REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS SSL Crypto)
saqiya_find_library(hiredis hiredis/hiredis.h hiredis)
saqiya_find_library(cares ares.h cares)

if(SAQIYA_DEPS STREQUAL "static")
  get_target_property(_saqiya_absl_type absl::raw_hash_set TYPE)
  if(NOT _saqiya_absl_type STREQUAL "STATIC_LIBRARY")
    message(FATAL_ERROR "SAQIYA_DEPS=static found a shared abseil; run packaging/deps/build and put "
                        "the prefix that it prints into CMAKE_PREFIX_PATH")
  endif()
endif()
