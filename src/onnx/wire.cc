#include "onnx/wire.h"

#include <cstring>
#include <protozero/byteswap.hpp>
#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

namespace opsnn::onnx {
namespace {

[[noreturn]] void Malformed(const char* what) {
  throw ReadError{InvalidArgument("the bytes are not a valid ONNX model (%s).", what)};
}

}  // namespace

uint64_t Message::TakeVarint(std::string_view* from) {
  const char* p = from->data();
  try {
    const uint64_t v = protozero::decode_varint(&p, from->data() + from->size());
    from->remove_prefix(p - from->data());
    return v;
  } catch (const protozero::varint_too_long_exception&) {
    Malformed("a number has more bytes than one may have");
  } catch (const protozero::exception&) {
    Malformed("the data ends inside a number, as in a truncated file");
  }
}

std::string_view Message::Take(size_t n) {
  if (n > rest_.size()) Malformed("a field is longer than the data, as in a truncated file");
  const std::string_view v = rest_.substr(0, n);
  rest_.remove_prefix(n);
  return v;
}

void Message::Expect(Wire wire) const {
  if (!pending_ || wire_ != wire) Malformed("a field has an unexpected wire type");
}

bool Message::Next() {
  if (pending_) {
    switch (wire_) {
      case Wire::kVarint:
        TakeVarint(&rest_);
        break;
      case Wire::kFixed64:
        Take(8);
        break;
      case Wire::kBytes:
        Take(TakeVarint(&rest_));
        break;
      case Wire::kFixed32:
        Take(4);
        break;
    }
    pending_ = false;
  }
  if (rest_.empty()) return false;
  const uint64_t key = TakeVarint(&rest_);
  const uint64_t wire = key & 7;
  if (key >> 3 == 0 || key >> 32 != 0) Malformed("a field number is out of range");
  if (wire != 0 && wire != 1 && wire != 2 && wire != 5) Malformed("unknown wire type");
  field_ = static_cast<uint32_t>(key >> 3);
  wire_ = static_cast<Wire>(wire);
  pending_ = true;
  return true;
}

int64_t Message::Int() {
  Expect(Wire::kVarint);
  pending_ = false;
  return static_cast<int64_t>(TakeVarint(&rest_));
}

float Message::Float() {
  std::vector<float> one;
  Expect(Wire::kFixed32);
  Append(&one);
  return one[0];
}

std::string_view Message::Bytes() {
  Expect(Wire::kBytes);
  pending_ = false;
  return Take(TakeVarint(&rest_));
}

void Message::Append(std::vector<int64_t>* out) {
  if (wire_ == Wire::kVarint) {
    out->push_back(Int());
    return;
  }
  std::string_view packed = Bytes();
  while (!packed.empty()) out->push_back(static_cast<int64_t>(TakeVarint(&packed)));
}

template <typename T>
void Message::AppendFixed(Wire unpacked, std::vector<T>* out) {
  std::string_view data;
  if (wire_ == unpacked && pending_) {
    pending_ = false;
    data = Take(sizeof(T));
  } else {
    data = Bytes();
  }
  if (data.size() % sizeof(T) != 0) Malformed("a packed list does not hold whole numbers");
  const size_t old = out->size();
  out->resize(old + data.size() / sizeof(T));
  // The wire is little endian, as are the machines this is built for.
  if (!data.empty()) std::memcpy(out->data() + old, data.data(), data.size());
}

void Message::Append(std::vector<float>* out) { AppendFixed(Wire::kFixed32, out); }
void Message::Append(std::vector<double>* out) { AppendFixed(Wire::kFixed64, out); }

}  // namespace opsnn::onnx
