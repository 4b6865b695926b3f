# cmake --install build --prefix P: P/include, P/lib64, P/bin, P/set_env.sh, P/lib64/cmake/opsnn,
# P/lib64/pkgconfig. The whole tree may be moved: nothing in it but set_env.sh's fallback knows P.
include(CMakePackageConfigHelpers)
get_property(thin GLOBAL PROPERTY OPSNN_THIN_LIBRARIES)

install(TARGETS opsnn ${thin} EXPORT opsnnTargets LIBRARY DESTINATION lib64 RUNTIME DESTINATION bin)
if(TARGET opsnn_cli)
  install(TARGETS opsnn_cli RUNTIME DESTINATION bin)
endif()
install(PROGRAMS ${PROJECT_SOURCE_DIR}/tools/npu-smi DESTINATION bin)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION include FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/include/ DESTINATION include FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/include/opsnn/ops_nn.h DESTINATION include)

install(EXPORT opsnnTargets NAMESPACE opsnn:: DESTINATION lib64/cmake/opsnn)
file(WRITE ${PROJECT_BINARY_DIR}/opsnnConfig.cmake
     "include(\"\${CMAKE_CURRENT_LIST_DIR}/opsnnTargets.cmake\")\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/opsnnConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/opsnnConfig.cmake ${PROJECT_BINARY_DIR}/opsnnConfigVersion.cmake
        DESTINATION lib64/cmake/opsnn)
# CMake on Debian does not look into lib64; it does look into share/cmake.
foreach(f opsnnConfig opsnnConfigVersion)
  file(WRITE ${PROJECT_BINARY_DIR}/share/${f}.cmake
       "include(\"\${CMAKE_CURRENT_LIST_DIR}/../../../lib64/cmake/opsnn/${f}.cmake\")\n")
  install(FILES ${PROJECT_BINARY_DIR}/share/${f}.cmake DESTINATION share/cmake/opsnn)
endforeach()

configure_file(${PROJECT_SOURCE_DIR}/cmake/opsnn.pc.in ${PROJECT_BINARY_DIR}/opsnn.pc @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/cmake/ascendcl.pc.in ${PROJECT_BINARY_DIR}/ascendcl.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/opsnn.pc ${PROJECT_BINARY_DIR}/ascendcl.pc DESTINATION lib64/pkgconfig)

# The prefix is known only now.
install(CODE "
  set(OPSNN_PREFIX \"\${CMAKE_INSTALL_PREFIX}\")
  configure_file(\"${PROJECT_SOURCE_DIR}/cmake/set_env.sh.in\"
                 \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/set_env.sh\" @ONLY)
")

# Plain programs cannot load a sanitized library.
if(OPSNN_BUILD_TESTS AND NOT OPSNN_SANITIZE AND TARGET opsnn_api)
  add_test(NAME install COMMAND ${PROJECT_SOURCE_DIR}/tests/install/run.sh ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR}
                                ${CMAKE_CXX_COMPILER} ${CMAKE_C_COMPILER})
  set_tests_properties(install PROPERTIES TIMEOUT 600)
endif()
