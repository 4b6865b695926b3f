// ONNX models as bytes: protocol buffers, as much as a model of a few nodes takes.
#ifndef OPSNN_BENCH_PEERS_ONNX_BYTES_H_
#define OPSNN_BENCH_PEERS_ONNX_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace opsnn::peers {

struct Message {
  std::string bytes;
  void Varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) bytes += static_cast<char>(v | 0x80);
    bytes += static_cast<char>(v);
  }
  Message& Int(int field, int64_t v) {
    Varint(static_cast<uint64_t>(field) << 3);
    Varint(static_cast<uint64_t>(v));
    return *this;
  }
  Message& Bytes(int field, const void* data, size_t size) {
    Varint(static_cast<uint64_t>(field) << 3 | 2);
    Varint(size);
    bytes.append(static_cast<const char*>(data), size);
    return *this;
  }
  Message& Text(int field, const std::string& s) { return Bytes(field, s.data(), s.size()); }
  Message& Sub(int field, const Message& m) { return Text(field, m.bytes); }
};

// AttributeProto: an integer, a list of integers, a string.
inline Message Attribute(const char* name, int64_t v) { return Message().Text(1, name).Int(3, v).Int(20, 2); }
inline Message Attribute(const char* name, const std::vector<int64_t>& values) {
  Message m;
  m.Text(1, name);
  for (const int64_t v : values) m.Int(8, v);
  return m.Int(20, 7);
}
inline Message Attribute(const char* name, const char* s) {
  return Message().Text(1, name).Text(4, s).Int(20, 3);
}

inline Message Node(const char* op, const std::vector<std::string>& inputs, const char* output,
                    const std::vector<Message>& attributes = {}) {
  Message n;
  for (const std::string& i : inputs) n.Text(1, i);
  n.Text(2, output).Text(4, op);
  for (const Message& a : attributes) n.Sub(5, a);
  return n;
}

// `type` is a TensorProto.DataType.
inline Message ValueInfo(const char* name, int type, const std::vector<int64_t>& dims) {
  Message shape, tensor, wrapper;
  for (const int64_t d : dims) shape.Sub(1, Message().Int(1, d));
  wrapper.Sub(1, tensor.Int(1, type).Sub(2, shape));
  return Message().Text(1, name).Sub(2, wrapper);
}

inline Message Tensor(const char* name, int type, const std::vector<int64_t>& dims, const void* data,
                      size_t bytes) {
  Message t;
  for (const int64_t d : dims) t.Int(1, d);
  return t.Int(2, type).Text(8, name).Bytes(9, data, bytes);
}

inline Message OnnxModel(const Message& graph, int opset = 20) {
  return Message().Int(1, 9).Sub(7, graph).Sub(8, Message().Text(1, "").Int(2, opset));
}

}  // namespace opsnn::peers

#endif  // OPSNN_BENCH_PEERS_ONNX_BYTES_H_
