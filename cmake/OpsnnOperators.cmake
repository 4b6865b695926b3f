# The operators: one module per family, and the table that tools/gen_ops.py writes from their declarations.
# A new declaration or family is picked up by the next build (CONFIGURE_DEPENDS).
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)

function(opsnn_operators)
  cmake_parse_arguments(O "" "" "DEPS" ${ARGN})
  set(dir ${CMAKE_CURRENT_SOURCE_DIR}/ops)
  set(table ${PROJECT_BINARY_DIR}/generated/src/op_table.cc)
  set(generator ${PROJECT_SOURCE_DIR}/tools/gen_ops.py)
  file(GLOB_RECURSE tomls CONFIGURE_DEPENDS ${dir}/*.toml)
  add_custom_command(
    OUTPUT ${table}
    COMMAND Python3::Interpreter ${generator} ${dir} ${table}
    DEPENDS ${tomls} ${generator} ${PROJECT_SOURCE_DIR}/tools/gen_aclnn.py
            ${CMAKE_CURRENT_SOURCE_DIR}/capi/data/aclnn_prototypes.jsonl
    COMMENT "Generating the operator table" VERBATIM)

  file(GLOB families CONFIGURE_DEPENDS LIST_DIRECTORIES true RELATIVE ${dir} ${dir}/*)
  set(modules)
  foreach(f ${families})
    if(IS_DIRECTORY ${dir}/${f})
      opsnn_module(ops_${f} DIR ${dir}/${f} DEPS ${O_DEPS})
      list(APPEND modules ops_${f})
    endif()
  endforeach()
  opsnn_module(ops NORECURSE DIR ${dir} DEPS ${modules} op SOURCES ${table})
  if(OPSNN_BUILD_TESTS)
    add_test(NAME gen_ops COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/gen_ops_test.py)
  endif()
  # Tests call operators through the registry, which lives beside the table.
  foreach(m ${modules})
    foreach(kind test bench)
      if(TARGET ${m}_${kind})
        target_link_libraries(${m}_${kind} PRIVATE opsnn_ops)
      endif()
    endforeach()
  endforeach()
endfunction()
