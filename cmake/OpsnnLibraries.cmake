# The shared libraries. libopsnn holds all code and exports its C++ API and the C entry points; the libraries
# that Ascend programs name are thin: each defines its C symbols as calls into libopsnn, found by $ORIGIN.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

set(opsnn_main ${PROJECT_SOURCE_DIR}/src/capi/library.cc)
add_library(opsnn SHARED ${opsnn_main})
add_library(opsnn::opsnn ALIAS opsnn)
# Whole archives: nothing inside refers to the entry points.
get_property(opsnn_modules GLOBAL PROPERTY OPSNN_MODULES)
list(REMOVE_ITEM opsnn_modules opsnn_testing)
target_link_libraries(opsnn PRIVATE "-Wl,--whole-archive" ${opsnn_modules} "-Wl,--no-whole-archive")
set(map ${PROJECT_SOURCE_DIR}/src/capi/libopsnn.map)
target_link_options(opsnn PRIVATE "LINKER:--version-script=${map}" "LINKER:--no-undefined")
# Pool threads sleep in this code until the process ends: dlclose must not unmap it.
target_link_options(opsnn PRIVATE "LINKER:-z,nodelete")
set_target_properties(opsnn PROPERTIES LINK_DEPENDS ${map} VERSION ${PROJECT_VERSION} SOVERSION 0
                      INSTALL_RPATH "$ORIGIN")
target_compile_features(opsnn INTERFACE cxx_std_20)
target_include_directories(opsnn INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${OPSNN_GENERATED}/include>
  $<INSTALL_INTERFACE:include>)
if(OPSNN_SANITIZE)
  target_link_options(opsnn PUBLIC -fsanitize=${OPSNN_SANITIZE})
endif()

# One object library per file of entry points, so that libopapi and its parts share them.
foreach(s ${OPSNN_SHIMS})
  add_library(opsnn_obj_${s} OBJECT ${OPSNN_GENERATED}/src/capi/${s}_shims.cc)
  set_source_files_properties(${OPSNN_GENERATED}/src/capi/${s}_shims.cc PROPERTIES GENERATED TRUE)
  target_include_directories(opsnn_obj_${s} PRIVATE ${PROJECT_SOURCE_DIR}/src ${OPSNN_GENERATED}/src
                             ${OPSNN_GENERATED}/include)
  target_compile_options(opsnn_obj_${s} PRIVATE -O1)
  if(OPSNN_SANITIZE)
    target_compile_options(opsnn_obj_${s} PRIVATE -fsanitize=${OPSNN_SANITIZE} -fno-omit-frame-pointer)
  endif()
  add_dependencies(opsnn_obj_${s} opsnn_capi_generated)
endforeach()

set(OPSNN_THIN_LIBRARIES)
function(opsnn_thin_library name)
  set(objects)
  foreach(s ${ARGN})
    list(APPEND objects $<TARGET_OBJECTS:opsnn_obj_${s}>)
  endforeach()
  if(NOT objects)
    set(objects ${opsnn_main})
  endif()
  add_library(opsnn_${name} SHARED ${objects})
  set_target_properties(opsnn_${name} PROPERTIES OUTPUT_NAME ${name} EXPORT_NAME ${name} INSTALL_RPATH "$ORIGIN")
  target_include_directories(opsnn_${name} INTERFACE $<INSTALL_INTERFACE:include>
                             $<BUILD_INTERFACE:${OPSNN_GENERATED}/include>)
  target_link_libraries(opsnn_${name} PRIVATE opsnn)
  add_library(opsnn::${name} ALIAS opsnn_${name})
  set(OPSNN_THIN_LIBRARIES ${OPSNN_THIN_LIBRARIES} opsnn_${name} PARENT_SCOPE)
endfunction()
opsnn_thin_library(ascendcl ascendcl)
opsnn_thin_library(nnopbase nnopbase)
opsnn_thin_library(hccl hccl)
opsnn_thin_library(opapi opapi_cv opapi_math opapi_nn opapi_transformer)
opsnn_thin_library(opapi_nn opapi_nn)
opsnn_thin_library(opapi_math opapi_math)
opsnn_thin_library(opapi_transformer opapi_transformer)
opsnn_thin_library(opapi_cv opapi_cv)
opsnn_thin_library(acl_op_compiler)  # linked by some build files; nothing is called in it
set_property(GLOBAL PROPERTY OPSNN_THIN_LIBRARIES ${OPSNN_THIN_LIBRARIES})
