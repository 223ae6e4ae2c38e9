# What a user gets: the program, the library with its public headers, and the tests that span folders.
get_property(parts GLOBAL PROPERTY CELLAR_LIBRARIES)
