# Field numbers of the ONNX schema, taken at build time from the schema that Debian's libonnx-dev installs.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_file(OPSNN_ONNX_PROTO onnx/onnx.proto REQUIRED)
find_path(OPSNN_PROTOZERO_INCLUDE protozero/pbf_reader.hpp REQUIRED)
set(onnx_fields ${PROJECT_BINARY_DIR}/generated/src/onnx/onnx_fields.h)
add_custom_command(OUTPUT ${onnx_fields}
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/gen_onnx_fields.py ${OPSNN_ONNX_PROTO} ${onnx_fields}
  DEPENDS ${PROJECT_SOURCE_DIR}/tools/gen_onnx_fields.py ${OPSNN_ONNX_PROTO} VERBATIM)
target_sources(opsnn_onnx PRIVATE ${onnx_fields})
target_include_directories(opsnn_onnx SYSTEM PUBLIC ${OPSNN_PROTOZERO_INCLUDE})
