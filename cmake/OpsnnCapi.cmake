# The C API: public headers and entry points generated from prototypes and operator declarations
# (tools/gen_capi.py), and the module behind them. The thin libraries are in OpsnnLibraries.cmake.
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)

set(OPSNN_GENERATED ${PROJECT_BINARY_DIR}/generated)
set(OPSNN_SHIMS ascendcl nnopbase hccl opapi_cv opapi_math opapi_nn opapi_transformer)

function(opsnn_capi)
  cmake_parse_arguments(C "" "" "DEPS" ${ARGN})
  set(capi ${CMAKE_CURRENT_SOURCE_DIR}/capi)
  set(scripts ${PROJECT_SOURCE_DIR}/tools/gen_capi.py ${PROJECT_SOURCE_DIR}/tools/gen_aclnn.py
      ${PROJECT_SOURCE_DIR}/tools/gen_capi_headers.py ${PROJECT_SOURCE_DIR}/tools/function_texts.py
      ${PROJECT_SOURCE_DIR}/tools/gen_capi_shims.py)
  file(GLOB data CONFIGURE_DEPENDS ${capi}/data/*)
  file(GLOB api CONFIGURE_DEPENDS ${capi}/api/*.cc)
  file(GLOB_RECURSE tomls CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/ops/*.toml)
  set(out ${OPSNN_GENERATED}/src/capi)
  set(own ${out}/acl_exports.cc ${out}/api_rows.cc ${out}/adapter_table.cc)
  set(shims)
  foreach(s ${OPSNN_SHIMS})
    list(APPEND shims ${out}/${s}_shims.cc)
  endforeach()
  add_custom_command(
    OUTPUT ${OPSNN_GENERATED}/capi.stamp
    BYPRODUCTS ${own} ${shims} ${out}/acl_exports.h
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/gen_capi.py --data ${capi}/data
            --ops ${CMAKE_CURRENT_SOURCE_DIR}/ops --api ${capi}/api --out ${OPSNN_GENERATED}
    COMMAND ${CMAKE_COMMAND} -E touch ${OPSNN_GENERATED}/capi.stamp
    DEPENDS ${data} ${api} ${tomls} ${scripts}
    COMMENT "Generating the C API" VERBATIM)
  add_custom_target(opsnn_capi_generated DEPENDS ${OPSNN_GENERATED}/capi.stamp)
  set_source_files_properties(${own} ${shims} PROPERTIES GENERATED TRUE)

  opsnn_module(capi DEPS ${C_DEPS} SOURCES ${own})
  add_dependencies(opsnn_capi opsnn_capi_generated)

  # The C symbols as static code, for tests that link no shared library.
  add_library(opsnn_shims STATIC EXCLUDE_FROM_ALL ${shims})
  target_link_libraries(opsnn_shims PUBLIC opsnn_capi)
  target_compile_options(opsnn_shims PRIVATE -O1)
  add_dependencies(opsnn_shims opsnn_capi_generated)
  if(TARGET capi_test)
    add_dependencies(capi_test opsnn_capi_generated)
    target_link_libraries(capi_test PRIVATE opsnn_shims)
  endif()
  if(OPSNN_SANITIZE MATCHES "undefined")
    # C callers may pass any int where an enum is declared; it is checked, not undefined. Linked last, since the
    # option has to follow the -fsanitize that it narrows.
    add_library(opsnn_any_enum INTERFACE)
    target_compile_options(opsnn_any_enum INTERFACE -fno-sanitize=enum)
    foreach(t opsnn_capi opsnn_shims capi_test)
      if(TARGET ${t})
        target_link_libraries(${t} PRIVATE opsnn_any_enum)
      endif()
    endforeach()
  endif()
  if(TARGET capi_bench)
    add_dependencies(capi_bench opsnn_capi_generated)
    target_link_libraries(capi_bench PRIVATE opsnn_shims)
  endif()
endfunction()
