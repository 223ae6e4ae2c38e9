# cellar_library(NAME DEPENDS ... PRIVATE ...): the library of src/NAME (every .cc under it that is no test) and, with tests,
# one program NAME_test of all its *_test.cc files. A folder without sources becomes a library of headers only.
function(cellar_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(sources)
    add_library(cellar_${name} STATIC ${sources})
    target_link_libraries(cellar_${name} PUBLIC cellar_flags ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE})
    target_compile_definitions(cellar_${name} PRIVATE CELLAR_VERSION="${PROJECT_VERSION}")
    set_property(GLOBAL APPEND PROPERTY CELLAR_ARCHIVES cellar_${name})
  else()
    add_library(cellar_${name} INTERFACE)
    target_link_libraries(cellar_${name} INTERFACE cellar_flags ${ARG_DEPENDS})
  endif()
  set_property(GLOBAL APPEND PROPERTY CELLAR_LIBRARIES cellar_${name})
  if(CELLAR_WITH_TESTS AND tests)
    cellar_test(${name}_test SOURCES ${tests} LIBRARIES cellar_${name} ${ARG_PRIVATE})
  endif()
endfunction()

# cellar_kernels(NAME): flags for the kernels in src/NAME/cpu, after cellar_library(NAME).
function(cellar_kernels name)
  # Highway leaves its best x86 target out unless every file that includes it asks for it.
  get_target_property(type cellar_${name} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    target_compile_definitions(cellar_${name} INTERFACE HWY_WANT_AVX3_DL)
  else()
    target_compile_definitions(cellar_${name} PUBLIC HWY_WANT_AVX3_DL)
  endif()
  # -O3 unrolls the short constant loops, so that arrays of vectors stay in registers.
  set(flags "$<$<CONFIG:Release>:-O3>")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # AVX-512 intrinsics warn falsely with g++ 12.
    list(APPEND flags -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/cpu/*.cc)
  if(kernels)
    set_source_files_properties(${kernels} PROPERTIES COMPILE_OPTIONS "${flags}")
  endif()
endfunction()

# cellar_test(NAME SOURCES ... LIBRARIES ...): a test program, run by ctest.
function(cellar_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  if(CELLAR_SANITIZE)
    # g++ then sees values that may be unset in std::regex and std::function, where there are none.
    target_compile_options(${name} PRIVATE -Wno-maybe-uninitialized)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} cellar_flags rapidcheck GTest::gtest GTest::gtest_main Threads::Threads)
  target_compile_definitions(${name} PRIVATE
    CELLAR_SOURCE_DIR="${PROJECT_SOURCE_DIR}" CELLAR_BINARY_DIR="${PROJECT_BINARY_DIR}" CELLAR_VERSION="${PROJECT_VERSION}")
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES TIMEOUT 900)
endfunction()
