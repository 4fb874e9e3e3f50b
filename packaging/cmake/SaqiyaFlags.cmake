# Flags that every target of this build shares. Nothing here reaches a consumer of the installed library.

# Strict warnings, for our own sources in developer mode only; link it PRIVATE.
add_library(saqiya_warnings INTERFACE)
if(SAQIYA_WARNINGS)
  target_compile_options(saqiya_warnings INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
    $<$<CXX_COMPILER_ID:Clang>:-Wreserved-identifier>)
endif()

# Hidden by default, and position independent: the core ends up in shared objects of three kinds.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

# -ffp-contract=off: the sliding window's doubles must round as Lua's do, with or without FMA.
add_compile_options(-ffunction-sections -fdata-sections -ffp-contract=off)

if(SAQIYA_SANITIZE)
  add_compile_options(-fsanitize=${SAQIYA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SAQIYA_SANITIZE})
  # GCC's warning is wrong about instrumented std::function (std::regex uses it).
  target_compile_options(saqiya_warnings INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
