# The same bytes in any directory, at any time, by any user.

# Archives without times, users and modes, whatever ar does by itself.
set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "<CMAKE_AR> qD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "<CMAKE_RANLIB> -D <TARGET>")

# Compilers before gcc 8 map directories of debug symbols only.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-ffile-prefix-map=/a=/b MAPS_FILES)
set(PREFIX_MAP -fdebug-prefix-map)
if(MAPS_FILES)
  set(PREFIX_MAP -ffile-prefix-map)
endif()

# make_reproducible(TARGET): compiles a target without its directories and the time in its objects.
# Options that are added to the target afterwards count before these.
function(make_reproducible target)
  # A cache of objects may give the compiler paths that are relative to where it runs.
  get_target_property(directory ${target} BINARY_DIR)
  file(RELATIVE_PATH back "${directory}" "${CMAKE_CURRENT_SOURCE_DIR}")
  string(REGEX REPLACE "/$" "" back "${back}")
  target_compile_options(${target} PRIVATE
    # Of two prefixes that match, the last one counts.
    "${PREFIX_MAP}=${back}=."
    "${PREFIX_MAP}=${CMAKE_CURRENT_SOURCE_DIR}=." "${PREFIX_MAP}=${CMAKE_CURRENT_BINARY_DIR}=build"
    # gcc makes names of hidden functions from the path of a file.
    -frandom-seed=switchml-${target}
    # What an archive says of itself is read from its objects, whatever CXXFLAGS ask for.
    $<$<STREQUAL:$<TARGET_PROPERTY:${target},TYPE>,STATIC_LIBRARY>:-fno-lto>
    -Wno-builtin-macro-redefined "-D__DATE__=\"Jan  1 1970\"" "-D__TIME__=\"00:00:00\"")
endfunction()
