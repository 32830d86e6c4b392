# Compiles the delegate's files in SWITCHML_TARGET as one, which takes half the time. It is beside
# them, and names no directory: then its bytes are the same wherever it is built.
get_target_property(sources ${SWITCHML_TARGET} SOURCES)
list(FILTER sources INCLUDE REGEX "/SwitchML[^/]*\\.cpp$")
set_source_files_properties(${sources} PROPERTIES HEADER_FILE_ONLY ON)
list(GET sources 0 unit)
string(REGEX REPLACE "[^/]+$" "unit.cpp" unit "${unit}")
list(TRANSFORM sources REPLACE ".*/(.*)" "#include \"\\1\"\n")
string(CONCAT sources ${sources})
file(WRITE "${unit}" "${sources}")
set_source_files_properties("${unit}" PROPERTIES COMPILE_OPTIONS "${SWITCHML_OPTIONS}"
  COMPILE_DEFINITIONS "${SWITCHML_DEFINITIONS}" INCLUDE_DIRECTORIES "${SWITCHML_INCLUDES}")
target_sources(${SWITCHML_TARGET} PRIVATE "${unit}")
