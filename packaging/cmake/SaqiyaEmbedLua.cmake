# saqiya_embed_lua(TARGET FILE [PART...]): for core/x/lua/name.lua generates core/x/lua/name.lua.h, which
# holds the script as a string constant, and puts it on TARGET's include path. PART: the files of FILE's
# folder that it includes, see embed_lua_script.cmake.
function(saqiya_embed_lua target file)
  cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" OUTPUT_VARIABLE input)
  cmake_path(RELATIVE_PATH input BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE relative)
  cmake_path(GET input PARENT_PATH folder)
  set(output "${PROJECT_BINARY_DIR}/generated/${relative}.h")
  list(TRANSFORM ARGN PREPEND "${folder}/" OUTPUT_VARIABLE parts)
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DINPUT=${input}" "-DOUTPUT=${output}" "-DNAME=${relative}" "-DPARTS=${ARGN}"
            -P "${PROJECT_SOURCE_DIR}/packaging/cmake/embed_lua_script.cmake"
    DEPENDS "${input}" ${parts} "${PROJECT_SOURCE_DIR}/packaging/cmake/embed_lua_script.cmake"
    COMMENT "Embedding ${relative}"
    VERBATIM)
  target_sources(${target} PRIVATE "${output}")
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>")
endfunction()
