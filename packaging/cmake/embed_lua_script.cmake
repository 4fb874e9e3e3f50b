# Run with -P: turns the Lua file INPUT (called NAME in the text) into the header OUTPUT.
# Whole-line comments, indentation and blank lines are dropped: the script is sent to every server, and
# its digest changes only when its code does. A comment after code stays; block comments are refused.
file(READ "${INPUT}" text)
if(text MATCHES "\\[=*\\[")
  message(FATAL_ERROR "${NAME}: long brackets are not supported")
endif()
if(text MATCHES "\\)lua\"")
  message(FATAL_ERROR "${NAME}: the terminator of the C++ raw string is in the script")
endif()
set(text "\n${text}\n")
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
