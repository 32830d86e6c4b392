# Finds the SwitchML client library of SWITCHML_HOME, and what it is linked with.
#
# Sets SWITCHML_OPTIONS, SWITCHML_DEFINITIONS, SWITCHML_INCLUDES, SWITCHML_LIBRARIES,
# SWITCHML_LIBRARY_DIRS, SWITCHML_RUN_PATH and SWITCHML_SIMULATOR. The patch sets SWITCHML_FLAGS, the
# homes, and what its flags mean: SWITCHML_BACKENDS, SWITCHML_PARTS of these, SWITCHML_WITH_GRPC as a
# regular expression, and SWITCHML_LIBRARIES_<FLAG>.

# Ends the configuration. `switchml-patch check` has a function of its own, which notes the code and
# the value, and goes on.
if(NOT COMMAND switchml_refuse)
  function(switchml_refuse code value text)
    message(FATAL_ERROR "SwitchML: ${text}")
  endfunction()
endif()

# Sets a variable to the beginning of a digest of files.
function(switchml_digest variable)
  set(digests)
  foreach(path IN LISTS ARGN)
    file(SHA256 "${path}" digest)
    string(APPEND digests ${digest})
  endforeach()
  string(SHA256 digest "${digests}")
  string(SUBSTRING "${digest}" 0 16 digest)
  set(${variable} "${digest}" PARENT_SCOPE)
endfunction()

function(switchml_need path option)
  if(NOT EXISTS "${path}")
    switchml_refuse(${option} "${path}" "there is no ${path}\n\
Build or install what should be there, or name another place with -D${option}=DIR \
(switchml-patch generate writes the defaults).")
  endif()
endfunction()

set(SWITCHML_ARCHIVE "${SWITCHML_HOME}/lib/libswitchml-client.a")
switchml_need("${SWITCHML_HOME}/include/switchml/context.h" SWITCHML_HOME)
switchml_need("${SWITCHML_ARCHIVE}" SWITCHML_HOME)
# What `switchml-patch client build` says that a program links with: then no other home is needed.
set(SWITCHML_MODULE "${SWITCHML_HOME}/lib/pkgconfig/switchml-client.pc")

# What the archive was built with decides the layout of the structures in its headers, so it is read
# from the archive's symbols and strings, and again when it is another archive.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${SWITCHML_ARCHIVE}")
file(STRINGS "${SWITCHML_ARCHIVE}" SWITCHML_MARKS REGEX
  "8switchml7Context11GetInstance|8switchml1[0-9][A-Z][a-z0-9]+Backend|LoadFromFileE|general\\.timeout_threshold")
if(NOT SWITCHML_MARKS MATCHES "8switchml7Context11GetInstance")
  switchml_refuse(ARCHIVE "" "${SWITCHML_ARCHIVE} is not a SwitchML client library: it does not define \
switchml::Context::GetInstance(). Build the client library again, or set -DSWITCHML_HOME=DIR.")
endif()
string(REGEX MATCHALL "8switchml1[0-9][A-Z][a-z0-9]+Backend(Config)?" SWITCHML_DEFINITIONS
  "${SWITCHML_MARKS}")
list(FILTER SWITCHML_DEFINITIONS EXCLUDE REGEX "Config$")
list(TRANSFORM SWITCHML_DEFINITIONS REPLACE "8switchml1[0-9](.+)Backend" "\\1")
list(TRANSFORM SWITCHML_DEFINITIONS TOUPPER)
list(REMOVE_DUPLICATES SWITCHML_DEFINITIONS)
if(NOT DEFINED SWITCHML_FLAGS)  # there is no patch: they are those of the archive
  set(SWITCHML_FLAGS ${SWITCHML_DEFINITIONS})
  list(REMOVE_ITEM SWITCHML_FLAGS DUMMY)
endif()
string(REPLACE ";" " " SWITCHML_FLAGS_TEXT "${SWITCHML_FLAGS}")
file(STRINGS "${SWITCHML_HOME}/include/switchml/common.h" SWITCHML_SIMULATOR
  REGEX "define SWITCHML_SIMULATOR")
if(SWITCHML_SIMULATOR)
  # It stands in for every backend and needs the libraries of none.
  list(REMOVE_ITEM SWITCHML_FLAGS "" ${SWITCHML_BACKENDS} ${SWITCHML_PARTS})
endif()
if(SWITCHML_SIMULATOR OR NOT EXISTS "${SWITCHML_MODULE}")
  set(SWITCHML_MODULE "")
else()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${SWITCHML_MODULE}")
endif()
file(STRINGS "${SWITCHML_ARCHIVE}" SWITCHML_CLIENT REGEX "switchml-patch-client: commit=")
string(REGEX MATCH "commit=[0-9a-f]+ flags=[A-Z0-9,]+ fixes=[a-z0-9,-]+" SWITCHML_CLIENT "${SWITCHML_CLIENT}")
foreach(backend IN LISTS SWITCHML_BACKENDS)
  string(TOLOWER ${backend} option)
  if(backend IN_LIST SWITCHML_DEFINITIONS AND NOT backend IN_LIST SWITCHML_FLAGS)
    switchml_refuse(ARCHIVE "" "${SWITCHML_ARCHIVE} was built with ${backend}=1, but this patch was made without.\n\
Apply the patch again with --${option} (and the flags of the network card).")
  elseif(backend IN_LIST SWITCHML_FLAGS AND NOT backend IN_LIST SWITCHML_DEFINITIONS)
    switchml_refuse(ARCHIVE "" "this patch was made with ${backend}=1, but ${SWITCHML_ARCHIVE} was built without.\n\
Build the client library with ${backend}=1, or apply the patch again without --${option}.")
  endif()
endforeach()
if(SWITCHML_MARKS MATCHES "timeout_threshold")
  list(APPEND SWITCHML_DEFINITIONS TIMEOUTS)
endif()
if(SWITCHML_MARKS MATCHES "LoadFromFileENSt7__cxx11")
  set(SWITCHML_CXX11_ABI 1)
else()
  set(SWITCHML_CXX11_ABI 0)
endif()

set(SWITCHML_INCLUDES "${SWITCHML_HOME}/include")
set(SWITCHML_LIBRARIES "${SWITCHML_ARCHIVE}")
set(SWITCHML_LIBRARY_DIRS "${SWITCHML_HOME}/lib")
set(SWITCHML_RUN_PATH "${SWITCHML_HOME}/lib")
list(APPEND SWITCHML_LIBRARIES pthread glog boost_program_options)
if(SWITCHML_MODULE)
  file(STRINGS "${SWITCHML_MODULE}" SWITCHML_NAMED REGEX "^Libs: ")
  string(REPLACE "Libs: -L\${libdir} -lswitchml-client" "" SWITCHML_NAMED "${SWITCHML_NAMED}")
  separate_arguments(SWITCHML_NAMED UNIX_COMMAND "${SWITCHML_NAMED}")
  foreach(word IN LISTS SWITCHML_NAMED)
    if(word MATCHES "^-L(.+)$")
      list(APPEND SWITCHML_LIBRARY_DIRS "${CMAKE_MATCH_1}")
    elseif(word MATCHES "^-Wl,-rpath,(.+)$")
      list(APPEND SWITCHML_RUN_PATH "${CMAKE_MATCH_1}")
    else()
      list(APPEND SWITCHML_LIBRARIES "${word}")
    endif()
  endforeach()
elseif("DPDK" IN_LIST SWITCHML_FLAGS)
  switchml_need("${DPDK_HOME}/include" DPDK_HOME)
  if(NOT EXISTS "${DPDK_HOME}/lib/libdpdk.so")
    switchml_need("${DPDK_HOME}/lib/libdpdk.a" DPDK_HOME)
  endif()
  list(APPEND SWITCHML_INCLUDES "${DPDK_HOME}/include")
  list(APPEND SWITCHML_LIBRARY_DIRS "${DPDK_HOME}/lib")
  # DPDK's drivers register themselves in constructors, which only a whole archive keeps, and of
  # shared libraries only a linker that does not drop what nothing before has asked for.
  list(PREPEND SWITCHML_LIBRARIES
    -Wl,--push-state -Wl,--no-as-needed -Wl,--whole-archive -ldpdk -Wl,--pop-state)
  if(EXISTS "${DPDK_HOME}/lib/libdpdk.so")
    # It may be a script that leaves it to the linker what is needed: known after the archive only.
    list(APPEND SWITCHML_LIBRARIES "${DPDK_HOME}/lib/libdpdk.so")
    list(APPEND SWITCHML_RUN_PATH "${DPDK_HOME}/lib")
  endif()
  list(APPEND SWITCHML_LIBRARIES dl numa)
endif()
if(NOT SWITCHML_MODULE)
  foreach(flag IN LISTS SWITCHML_FLAGS)
    list(APPEND SWITCHML_LIBRARIES ${SWITCHML_LIBRARIES_${flag}})
  endforeach()
endif()

set(SWITCHML_REMOTE ${SWITCHML_FLAGS})
list(FILTER SWITCHML_REMOTE INCLUDE REGEX "^(${SWITCHML_WITH_GRPC})$")
if(NOT SWITCHML_MODULE AND SWITCHML_REMOTE)
  foreach(module protobuf grpc++)
    switchml_need("${GRPC_HOME}/lib/pkgconfig/${module}.pc" GRPC_HOME)
  endforeach()
  find_package(PkgConfig)
  if(NOT PKG_CONFIG_FOUND)
    switchml_refuse(PKG_CONFIG "" "no pkg-config on PATH, which knows where gRPC is; install it.")
  endif()
  # One question: pkg_check_modules asks a dozen, and about gRPC pkg-config thinks for a second.
  set(SWITCHML_MODULES "${GRPC_HOME}/lib/pkgconfig" "$ENV{PKG_CONFIG_PATH}")
  string(REPLACE ":" ";" SWITCHML_PREFIXES "$ENV{CMAKE_PREFIX_PATH}")
  foreach(prefix IN LISTS CMAKE_PREFIX_PATH SWITCHML_PREFIXES)
    file(GLOB SWITCHML_FOUND
      "${prefix}/lib*/pkgconfig" "${prefix}/lib/*/pkgconfig" "${prefix}/share/pkgconfig")
    list(APPEND SWITCHML_MODULES ${SWITCHML_FOUND})
  endforeach()
  list(JOIN SWITCHML_MODULES ":" SWITCHML_MODULES)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${SWITCHML_MODULES}" PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
      "${PKG_CONFIG_EXECUTABLE}" --print-errors --short-errors --cflags --libs protobuf grpc++
    RESULT_VARIABLE SWITCHML_CODE OUTPUT_VARIABLE SWITCHML_WORDS ERROR_VARIABLE SWITCHML_ERRORS)
  set(SWITCHML_GRPC_LIBRARIES)
  if(NOT SWITCHML_CODE EQUAL 0)
    switchml_refuse(MODULES "${SWITCHML_ERRORS}" "pkg-config refuses gRPC:\n${SWITCHML_ERRORS}")
    set(SWITCHML_WORDS "")
  endif()
  string(REGEX REPLACE "-isystem *" "-I" SWITCHML_WORDS "${SWITCHML_WORDS}")
  separate_arguments(SWITCHML_WORDS UNIX_COMMAND "${SWITCHML_WORDS}")
  foreach(word IN LISTS SWITCHML_WORDS)
    if(word MATCHES "^-I(.+)$")
      list(APPEND SWITCHML_INCLUDES "${CMAKE_MATCH_1}")
    elseif(word MATCHES "^-L(.+)$")
      list(APPEND SWITCHML_LIBRARY_DIRS "${CMAKE_MATCH_1}")
    elseif(word MATCHES "^-l(.+)$")
      list(APPEND SWITCHML_GRPC_LIBRARIES "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  list(APPEND SWITCHML_LIBRARIES ${SWITCHML_GRPC_LIBRARIES})
  list(APPEND SWITCHML_RUN_PATH "${GRPC_HOME}/lib")
endif()
# The compiler's own directories stay in its own order: before it, as with -isystem, <cstdlib> does
# not find <stdlib.h>.
list(REMOVE_ITEM SWITCHML_INCLUDES "" ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})

set(SWITCHML_OPTIONS -std=c++17 -U_GLIBCXX_USE_CXX11_ABI -D_GLIBCXX_USE_CXX11_ABI=${SWITCHML_CXX11_ABI})
if("DEBUG" IN_LIST SWITCHML_FLAGS)
  list(APPEND SWITCHML_OPTIONS -O0 -g -DSWITCHML_DELEGATE_DEBUG)
endif()
list(TRANSFORM SWITCHML_DEFINITIONS PREPEND -D OUTPUT_VARIABLE SWITCHML_COMPILE)
list(PREPEND SWITCHML_COMPILE ${SWITCHML_OPTIONS})
list(APPEND SWITCHML_DEFINITIONS "SWITCHML_DELEGATE_FLAGS=\"${SWITCHML_FLAGS_TEXT}\""
  "SWITCHML_DELEGATE_CLIENT=\"${SWITCHML_CLIENT}\"")

# A small program that links as the target will tells now what would be undefined symbols at import.
set(SWITCHML_PROBE "${CMAKE_CURRENT_BINARY_DIR}/switchml-probe")
file(WRITE "${SWITCHML_PROBE}/probe.cpp"
  "#include <switchml/context.h>\n"
  "int main() { return switchml::Context::GetInstance().Start() ? 0 : 1; }\n")
unset(SWITCHML_LINKS CACHE)
try_compile(SWITCHML_LINKS "${SWITCHML_PROBE}" "${SWITCHML_PROBE}/probe.cpp"
  CMAKE_FLAGS
    "-DINCLUDE_DIRECTORIES:STRING=${SWITCHML_INCLUDES}"
    "-DLINK_DIRECTORIES:STRING=${SWITCHML_LIBRARY_DIRS}"
  COMPILE_DEFINITIONS ${SWITCHML_COMPILE}
  LINK_LIBRARIES ${SWITCHML_LIBRARIES}
  OUTPUT_VARIABLE SWITCHML_OUTPUT
  CXX_STANDARD 17)
if(NOT SWITCHML_LINKS)
  string(REGEX MATCHALL "[^\n]*(undefined reference|cannot find|error:|No such file|ld:)[^\n]*"
    SWITCHML_ERRORS "${SWITCHML_OUTPUT}")
  string(REPLACE ";" "\n  " SWITCHML_ERRORS "${SWITCHML_ERRORS}")
  if(SWITCHML_ERRORS STREQUAL "")  # a compiler may speak another language
    set(SWITCHML_ERRORS "${SWITCHML_OUTPUT}")
  endif()
  switchml_refuse(LINKS "" "a program that uses ${SWITCHML_ARCHIVE} does not link with \
${SWITCHML_LIBRARIES}:\n  ${SWITCHML_ERRORS}\n\
Install the missing library, or build the client library and the patch with the same flags.")
endif()
