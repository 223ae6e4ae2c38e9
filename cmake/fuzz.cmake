# fuzz/NAME_fuzz.cc becomes the program NAME_fuzz. Needs clang.
file(GLOB fuzzers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/fuzz/*_fuzz.cc)
