# Run with -P: turns the Lua file INPUT (called NAME in the text) into the header OUTPUT.
# A line "--include: file.lua" is replaced by that file of INPUT's folder, which may include others.
# When PARTS is given, every file included must be one of its names: those the build watches.
# Whole-line comments, indentation and blank lines are dropped: the script is sent to every server, and
# its digest changes only when its code does. A comment after code stays; block comments are refused.
cmake_minimum_required(VERSION 3.20)
cmake_path(GET INPUT PARENT_PATH folder)
file(READ "${INPUT}" text)
set(text "\n${text}\n")
set(included "")
while(text MATCHES "\n[ \t]*--include:[ \t]*([^\n]*)\n")
  set(line "${CMAKE_MATCH_0}")
  string(STRIP "${CMAKE_MATCH_1}" part)
  if(NOT EXISTS "${folder}/${part}")
    message(FATAL_ERROR "${NAME}: there is no ${part} to include")
  endif()
  if(part IN_LIST included)
    message(FATAL_ERROR "${NAME}: ${part} is included twice")
  endif()
  if(DEFINED PARTS AND NOT part IN_LIST PARTS)
    message(FATAL_ERROR "${NAME}: ${part} is included, but is not named where the script is embedded")
  endif()
  list(APPEND included "${part}")
  file(READ "${folder}/${part}" part_text)
  string(REPLACE "${line}" "\n${part_text}\n" text "${text}")
endwhile()
if(text MATCHES "\\[=*\\[")
  message(FATAL_ERROR "${NAME}: long brackets are not supported")
endif()
if(text MATCHES "\\)lua\"")
  message(FATAL_ERROR "${NAME}: the terminator of the C++ raw string is in the script")
endif()
string(REGEX REPLACE "\n[ \t]*--[^\n]*" "\n" text "${text}")
string(REGEX REPLACE "[ \t]*\n[ \t\n]*" "\n" text "${text}")
string(REGEX REPLACE "^\n" "" text "${text}")
string(SHA1 sha1 "${text}")

get_filename_component(stem "${INPUT}" NAME_WE)
string(REPLACE "_" ";" words "${stem}")
set(constant "k")
foreach(word IN LISTS words)
  string(SUBSTRING "${word}" 0 1 head)
  string(SUBSTRING "${word}" 1 -1 tail)
  string(TOUPPER "${head}" head)
  string(APPEND constant "${head}${tail}")
endforeach()

set(header "// Generated from ${NAME}; do not edit.
#pragma once

#include <string_view>

namespace saqiya::lua {

inline constexpr std::string_view ${constant} = R\"lua(${text})lua\";

// SHA-1 of the bytes above, as EVALSHA wants it.
inline constexpr std::string_view ${constant}Sha1 = \"${sha1}\";

}  // namespace saqiya::lua
")
file(WRITE "${OUTPUT}" "${header}")
