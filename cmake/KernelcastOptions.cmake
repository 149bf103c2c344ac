# Language level, warnings, sanitizers, and helper functions to define targets.

option(KERNELCAST_BUILD_TESTS "Build the tests" ON)
option(KERNELCAST_WERROR "Treat warnings as errors" ON)
set(KERNELCAST_SANITIZER "" CACHE STRING "One of: address, thread, or empty")
set_property(CACHE KERNELCAST_SANITIZER PROPERTY STRINGS "" address thread)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# Programs look for libraries in ../lib first, and those libraries look there for their own
# dependencies, which requires RPATH instead of RUNPATH.
set(CMAKE_BUILD_RPATH "$ORIGIN/../lib")
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
add_link_options(-Wl,--disable-new-dtags)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

find_program(KERNELCAST_CCACHE ccache)
if(KERNELCAST_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${KERNELCAST_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${KERNELCAST_CCACHE})
endif()

# The same objects in every checkout, so that checkouts share the compiler cache.
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)

add_library(kernelcast_options INTERFACE)
add_library(kernelcast::options ALIAS kernelcast_options)
target_compile_options(kernelcast_options INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
  $<$<BOOL:${KERNELCAST_WERROR}>:-Werror>)
target_include_directories(kernelcast_options INTERFACE ${PROJECT_SOURCE_DIR})

if(KERNELCAST_SANITIZER STREQUAL "address")
  # Instrumentation makes GCC report reads of uninitialised values, for example in the standard
  # library's <regex>.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_link_options(-fsanitize=address,undefined)
elseif(KERNELCAST_SANITIZER STREQUAL "thread")
  # With this macro protobuf's headers lay out maps differently, and the library that we link is built
  # without it. Tests have a macro of ours instead.
  add_compile_options(-fsanitize=thread -U__SANITIZE_THREAD__ -DKERNELCAST_SANITIZE_THREAD
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(NOT KERNELCAST_SANITIZER STREQUAL "")
  message(FATAL_ERROR "KERNELCAST_SANITIZER is '${KERNELCAST_SANITIZER}'; it may be address, thread or empty")
endif()

# Headers and the templates that sources instantiate from them take most of the time to compile. This
# compiles the sources of a target as one, which parses and instantiates each once. So names in the
# anonymous namespaces of a target must differ. Without it, each source is compiled alone.
option(KERNELCAST_UNITY "Compile the sources of a target as one" OFF)
set(CMAKE_UNITY_BUILD ${KERNELCAST_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 0)
if(KERNELCAST_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A type may have members of types local to its source, which is an included file here. Collecting
  # garbage below 1 GB of memory takes a tenth of the compiler's time.
  add_compile_options(-Wno-subobject-linkage --param=ggc-min-heapsize=1000000)
endif()

# For services that allocate and free many messages on many threads, where glibc's malloc takes
# twice as long. Sanitizers bring their own allocator.
add_library(kernelcast_allocator INTERFACE)
add_library(kernelcast::allocator ALIAS kernelcast_allocator)
if(KERNELCAST_SANITIZER STREQUAL "")
  target_link_options(kernelcast_allocator INTERFACE
    LINKER:--push-state,--no-as-needed -ljemalloc LINKER:--pop-state)
endif()

# kernelcast_library(NAME SOURCES a.cc ... DEPS kernelcast::x ...): one static library per folder,
# with the alias kernelcast::NAME.
function(kernelcast_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(kernelcast_${name} STATIC ${ARG_SOURCES})
  add_library(kernelcast::${name} ALIAS kernelcast_${name})
  target_link_libraries(kernelcast_${name} PUBLIC ${ARG_DEPS} PRIVATE kernelcast::options)
  target_include_directories(kernelcast_${name} PUBLIC ${PROJECT_SOURCE_DIR})
endfunction()

# Everything that is installed.
add_custom_target(programs)

# kernelcast_binary(NAME SOURCES ... DEPS ...)
function(kernelcast_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} kernelcast::options)
  install(TARGETS ${name} RUNTIME DESTINATION bin)
  add_dependencies(programs ${name})
endfunction()
