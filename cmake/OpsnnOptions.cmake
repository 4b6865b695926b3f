# Compiler settings shared by every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(OPSNN_CCACHE ccache)
if(OPSNN_CCACHE)
  # Clones share their objects (base directory), misses are preprocessed once (dependency files say what was read),
  # and precompiled headers count by their content.
  set(launcher env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros
               ${OPSNN_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
endif()

find_package(Threads REQUIRED)

add_library(opsnn_options INTERFACE)
target_include_directories(opsnn_options INTERFACE
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
  ${PROJECT_BINARY_DIR}/generated/src ${PROJECT_BINARY_DIR}/generated/include)
target_link_libraries(opsnn_options INTERFACE Threads::Threads)
# No contraction: g++ would fuse intrinsic multiplies and adds, and a chain kept in registers
# would then round differently from the same chain run in passes.
target_compile_options(opsnn_options INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -fno-math-errno -fno-trapping-math -ffp-contract=off
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Baseline SSE4.2 + PCLMUL + AES: the smallest tier Highway 1.0.3 calls SSE4. Wider tiers are
  # compiled per function and chosen at run time (src/isa).
  target_compile_options(opsnn_options INTERFACE -march=x86-64-v2 -mpclmul -maes)
endif()
if(OPSNN_SANITIZE)
  # -O1 comes after the build type's level and wins: register-blocked kernels take ten times as long to compile
  # with instrumentation at -O3, and the checks are the same.
  target_compile_options(opsnn_options INTERFACE -O1 -fsanitize=${OPSNN_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(opsnn_options INTERFACE -fsanitize=${OPSNN_SANITIZE})
  if(OPSNN_SANITIZE MATCHES "undefined")
    target_compile_options(opsnn_options INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()
