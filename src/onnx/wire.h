// Message: a checked walk over one protobuf message.
//
// A thin layer over protozero that never trusts the bytes: a field of an unexpected wire type, a length
// beyond the end or a bad varint throws ReadError (protozero's own exceptions are translated). Exceptions
// stay inside this module: ReadModel catches them and returns a Status.
#ifndef OPSNN_ONNX_WIRE_H_
#define OPSNN_ONNX_WIRE_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace opsnn::onnx {

struct ReadError {
  Status status;
};

enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  // Moves to the next field; false at the end. The value of the field before is skipped if it was not read.
  bool Next();
  uint32_t field() const { return field_; }

  // The value of the current field; throws if it has another wire type.
  int64_t Int();
  float Float();
  std::string_view Bytes();
  std::string String() { return std::string(Bytes()); }
  Message Sub() { return Message(Bytes()); }

  // Appends the value or values of a repeated scalar field, packed or not.
  void Append(std::vector<int64_t>* out);
  void Append(std::vector<float>* out);
  void Append(std::vector<double>* out);

 private:
  template <typename T>
  void AppendFixed(Wire unpacked, std::vector<T>* out);
  void Expect(Wire wire) const;
  uint64_t TakeVarint(std::string_view* from);
  std::string_view Take(size_t n);

  std::string_view rest_;
  uint32_t field_ = 0;
  Wire wire_ = Wire::kVarint;
  bool pending_ = false;  // the current field's value is still in rest_
};

}  // namespace opsnn::onnx

#endif  // OPSNN_ONNX_WIRE_H_
