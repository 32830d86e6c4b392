# Packages that a project needs: what is missing, and what pkg-config says of those that are there.
#
# pkg_check_modules asks it ten questions and more for each answer, and about Debian's gRPC it thinks
# for a second each time. CMAKE_PREFIX_PATH is looked into as there.
find_package(PkgConfig QUIET)
# A compiler of conda does not look into the system's directories by itself.
set(ENV{PKG_CONFIG_ALLOW_SYSTEM_LIBS} 1)

# require(FOUND WHAT DEBIAN [CONDA]): stops where the variable FOUND is false, and names the packages
# that have it, also in the file `missing` of the build.
function(require found what debian)
  if(NOT ${found})
    set(conda)
    if(ARGC GREATER 3)
      set(conda "; conda: ${ARGV3}")
    endif()
    set(missing "${what} (Debian: ${debian}${conda})")
    file(WRITE "${CMAKE_BINARY_DIR}/missing" "${missing}")
    message(FATAL_ERROR "missing: ${missing}")
  endif()
endfunction()

# pkg_config(TEXT ARGUMENT...): sets the variable TEXT to what it prints, empty where it refuses.
function(pkg_config text)
  string(REPLACE ":" ";" prefixes "$ENV{CMAKE_PREFIX_PATH}")
  set(saved "$ENV{PKG_CONFIG_PATH}")
  string(REPLACE ":" ";" directories "${saved}")
  foreach(path IN LISTS CMAKE_PREFIX_PATH prefixes)
    file(GLOB found "${path}/lib*/pkgconfig" "${path}/lib/*/pkgconfig" "${path}/share/pkgconfig")
    list(APPEND directories ${found})
  endforeach()
  list(JOIN directories ":" joined)
  set(ENV{PKG_CONFIG_PATH} "${joined}")
  execute_process(
    COMMAND "${PKG_CONFIG_EXECUTABLE}" ${ARGN}
    RESULT_VARIABLE code OUTPUT_VARIABLE printed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(ENV{PKG_CONFIG_PATH} "${saved}")
  if(NOT code EQUAL 0)
    set(printed "")
  endif()
  set(${text} "${printed}" PARENT_SCOPE)
endfunction()

# flags_of(PREFIX MODULE...) sets, in the caller's variables,
#
#   PREFIX_FOUND         whether all modules are there
#   PREFIX_CFLAGS        the words for the compiler
#   PREFIX_LDFLAGS       the words for the linker
#   PREFIX_INCLUDE_DIRS, PREFIX_LIBRARY_DIRS  the directories in these
#   PREFIX_RUN_PATH      those that the compiler does not know by itself
function(flags_of prefix)
  foreach(name CFLAGS LDFLAGS INCLUDE_DIRS LIBRARY_DIRS)
    set(${name})
  endforeach()
  # The compiler's words come first, and each library has some word for the linker.
  set(kind CFLAGS)
  pkg_config(flags --cflags --libs ${ARGN})
  separate_arguments(words UNIX_COMMAND "${flags}")
  foreach(word IN LISTS words)
    if(word MATCHES "^(-[lL]|-Wl,|/)")
      set(kind LDFLAGS)
    endif()
    list(APPEND ${kind} "${word}")
    if(word MATCHES "^-I(.+)$")
      list(APPEND INCLUDE_DIRS "${CMAKE_MATCH_1}")
    elseif(word MATCHES "^-L(.+)$")
      list(APPEND LIBRARY_DIRS "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES LIBRARY_DIRS)
  set(RUN_PATH ${LIBRARY_DIRS})
  list(REMOVE_ITEM RUN_PATH "" ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES})
  set(FOUND FALSE)
  if(LDFLAGS)
    set(FOUND TRUE)
  endif()
  foreach(name FOUND CFLAGS LDFLAGS INCLUDE_DIRS LIBRARY_DIRS RUN_PATH)
    set(${prefix}_${name} "${${name}}" PARENT_SCOPE)
  endforeach()
endfunction()
