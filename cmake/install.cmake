# libcellar.a (all parts in one archive), the public headers, and a package that find_package(cellar) finds.
if(archives)
  add_library(cellar_merged STATIC)
  foreach(archive ${archives})
    target_sources(cellar_merged PRIVATE $<TARGET_OBJECTS:${archive}>)
  endforeach()
  set_target_properties(cellar_merged PROPERTIES
    OUTPUT_NAME cellar EXPORT_NAME cellar LINKER_LANGUAGE CXX ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_compile_features(cellar_merged PUBLIC cxx_std_20)
  target_include_directories(cellar_merged INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(cellar_merged INTERFACE
    fmt::fmt hwy::hwy PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::XXHASH Threads::Threads)
  add_library(cellar::cellar ALIAS cellar_merged)

  install(TARGETS cellar_merged EXPORT cellar ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  if(EXISTS ${PROJECT_SOURCE_DIR}/include)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
  endif()
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cellar)
  install(EXPORT cellar NAMESPACE cellar:: FILE cellar-targets.cmake DESTINATION ${package_dir})
  include(CMakePackageConfigHelpers)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/cellar-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/cellar-config.cmake ${PROJECT_BINARY_DIR}/cellar-config-version.cmake DESTINATION ${package_dir})
endif()
