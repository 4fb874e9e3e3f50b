# What a shared object exports is written down, never left to chance: one version script per binary.

set(SAQIYA_HARDENING_LINK_OPTIONS
  -Wl,-z,relro -Wl,-z,now -Wl,-z,nodelete -Wl,--gc-sections -Wl,--exclude-libs,ALL)
if(SAQIYA_DEPS STREQUAL "static")
  list(APPEND SAQIYA_HARDENING_LINK_OPTIONS -static-libstdc++ -static-libgcc)
endif()

# saqiya_write_version_script(OUTPUT NODE SYMBOL...): NODE may be "" for an anonymous node.
function(saqiya_write_version_script output node)
  list(JOIN ARGN ";\n    " symbols)
  file(CONFIGURE OUTPUT "${output}" @ONLY CONTENT "@node@ {
  global:
    @symbols@;
  local:
    *;
};
")
endfunction()

# saqiya_export_only(TARGET NODE SYMBOL...): TARGET exports exactly these names.
function(saqiya_export_only target node)
  set(script "${CMAKE_CURRENT_BINARY_DIR}/${target}.map")
  saqiya_write_version_script("${script}" "${node}" ${ARGN})
  target_link_options(${target} PRIVATE
    "LINKER:--version-script=${script}" ${SAQIYA_HARDENING_LINK_OPTIONS})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
endfunction()
