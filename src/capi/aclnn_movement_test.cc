// Functions that move data, against index arithmetic: any dtype, strided on both sides, empty.
#include <algorithm>
#include <memory>
#include <numeric>

#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_constant_pad_nd.h"
#include "aclnnop/aclnn_copy.h"
#include "aclnnop/aclnn_fill_scalar.h"
#include "aclnnop/aclnn_im2col.h"
#include "aclnnop/aclnn_permute.h"
#include "aclnnop/aclnn_reflection_pad1d.h"
#include "aclnnop/aclnn_repeat.h"
#include "aclnnop/aclnn_roll.h"
#include "aclnnop/aclnn_slice.h"
#include "aclnnop/aclnn_tril.h"
#include "aclnnop/aclnn_triu.h"
#include "aclnnop/aclnn_zero.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class Movement : public ApiTest {
 protected:
  Rng rng_;
  DType Any() { return kMoved[rng_.Int(0, std::size(kMoved) - 1)]; }
};

TEST_F(Movement, Permute) {
  for (int round = 0; round < 40; ++round) {
    const Dims dims = rng_.Shape(0, 6, 500, true);
    std::vector<int64_t> order(static_cast<size_t>(dims.rank()));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), rng_.engine());
    Dims out;
    for (int64_t d : order) out.push_back(dims[static_cast<int>(d)]);
    RandomTensor x(Any(), dims, rng_, round % 2);
    ApiTensor y(x.dtype(), out, &rng_, round % 3 == 1);
    std::vector<int64_t> given = order;
    for (int64_t& d : given) d -= rng_.Chance(0.3) ? dims.rank() : 0;
    ApiInts perm(given);
    ASSERT_EQ(CALL(aclnnPermute, x, perm, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(out, [&](const Index& at) {
                Index from(at.size());
                for (size_t i = 0; i < at.size(); ++i) from[static_cast<size_t>(order[i])] = at[i];
                return x(from);
              }));
    ExpectGuards({&x, &y});
  }
  RandomTensor x(DType::kF32, {2, 3}, rng_);
  ApiTensor y(DType::kF32, {3, 2}), f16(DType::kF16, {3, 2});
  ApiInts twice({1, 1}), few({0}), swap({1, 0}), far({0, 2});
  ExpectRefused(CALL(aclnnPermute, x, twice, y), 161002, {"aclnnPermute", "dims", "twice"});
  ExpectRefused(CALL(aclnnPermute, x, few, y), 161002, {"dims has 1 values", "2"});
  ExpectRefused(CALL(aclnnPermute, x, far, y), 161002, {"dims is 2", "-2 to 1"});
  ExpectRefused(CALL(aclnnPermute, x, swap, x), 161002, {"out has shape [2,3]"});
  ExpectRefused(CALL(aclnnPermute, x, swap, f16), 161002, {"out has dtype f16", "f32"});
  ExpectRefused(CALL(aclnnPermute, nullptr, swap, y), 161001, {"self is null"});
}

TEST_F(Movement, Slice) {
  for (int round = 0; round < 40; ++round) {
    const Dims dims = rng_.Shape(1, 5, 400, round % 8 == 0);
    const int64_t dim = rng_.Int(0, dims.rank() - 1), n = dims[static_cast<int>(dim)];
    const int64_t start = rng_.Int(-n - 2, n + 2), end = rng_.Int(-n - 2, n + 2), step = rng_.Int(1, 3);
    auto clamp = [n](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + n : v, 0, n); };
    const int64_t first = clamp(start), last = std::max(first, clamp(end));
    Dims out = dims;
    out[static_cast<int>(dim)] = (last - first + step - 1) / step;
    RandomTensor x(Any(), dims, rng_, round % 2);
    ApiTensor y(x.dtype(), out, &rng_, round % 3 == 1);
    ASSERT_EQ(CALL(aclnnSlice, x, dim - (round % 2 ? dims.rank() : 0), start, end, step, y), 0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(out, [&](Index at) {
                int64_t& i = at[static_cast<size_t>(dim)];
                i = first + i * step;
                return x(at);
              }));
    ExpectGuards({&x, &y});
  }
  RandomTensor x(DType::kF32, {4, 3}, rng_), scalar(DType::kF32, {}, rng_);
  ApiTensor y(DType::kF32, {2, 3});
  ExpectRefused(CALL(aclnnSlice, x, 2, 0, 2, 1, y), 161002, {"dim is 2", "-2 to 1"});
  ExpectRefused(CALL(aclnnSlice, x, 0, 0, 2, 0, y), 161002, {"step is 0", "1 or more"});
  ExpectRefused(CALL(aclnnSlice, x, 0, 0, 3, 1, y), 161002, {"out has shape [2,3]", "[3,3]"});
  ExpectRefused(CALL(aclnnSlice, scalar, 0, 0, 2, 1, y), 161002, {"self has 0 dims"});
}

TEST_F(Movement, CatJoinsAndPromotes) {
  for (int round = 0; round < 25; ++round) {
    const Dims dims = rng_.Shape(1, 4, 200);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    const DType types[] = {Any(), round % 3 ? DType::kS32 : DType::kF32};
    std::vector<std::unique_ptr<RandomTensor>> parts;
    std::vector<aclTensor*> handles;
    Dims out = dims;
    out[dim] = 0;
    const int64_t count = rng_.Int(1, 4);
    for (int64_t i = 0; i < count; ++i) {
      Dims own = dims;
      own[dim] = rng_.Int(0, 5);
      if (i == 1 && round % 5 == 0) own = {0};
      const DType t = round % 2 ? types[0] : types[i % 2];
      parts.push_back(std::make_unique<RandomTensor>(t, own, rng_, rng_.Chance(0.5), 1));
      if (!(own == Dims{0} && dims.rank() != 1)) out[dim] += own[dim];
      int64_t strides[8], shape[8];
      const TensorView& v = parts.back()->memory().view();
      for (int k = 0; k < v.rank(); ++k) strides[k] = v.strides[k], shape[k] = v.dims[k];
      handles.push_back(aclCreateTensor(shape, static_cast<uint64_t>(v.rank()), Acl(t), strides, 0,
                                        ACL_FORMAT_ND, shape, static_cast<uint64_t>(v.rank()), v.data));
    }
    aclTensorList* list = aclCreateTensorList(handles.data(), handles.size());
    ApiTensor y(DType::kF64, out, &rng_, round % 3 == 1);
    ASSERT_EQ(CALL(aclnnCat, list, dim, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(out, [&](Index at) {
                int64_t& i = at[static_cast<size_t>(dim)];
                for (const auto& p : parts) {
                  if (p->dims().rank() != out.rank()) continue;
                  if (i < p->dims()[dim]) return (*p)(at);
                  i -= p->dims()[dim];
                }
                return 99.0;
              }));
    EXPECT_EQ(aclDestroyTensorList(list), 0);
  }
}

TEST_F(Movement, Repeat) {
  for (int round = 0; round < 30; ++round) {
    const Dims dims = rng_.Shape(0, 3, 60, round % 9 == 0);
    std::vector<int64_t> repeats;
    for (int64_t i = rng_.Int(dims.rank(), 5); i > 0; --i) repeats.push_back(rng_.Int(round % 6 ? 1 : 0, 3));
    Dims out, own = dims;
    while (own.rank() < static_cast<int>(repeats.size())) own.insert(0, 1);
    for (int i = 0; i < own.rank(); ++i) out.push_back(own[i] * repeats[static_cast<size_t>(i)]);
    RandomTensor x(Any(), dims, rng_, round % 2);
    ApiTensor y(x.dtype(), out, &rng_, round % 3 == 1);
    ApiInts list(repeats);
    ASSERT_EQ(CALL(aclnnRepeat, x, list, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(out, [&](Index at) {
                for (int i = 0; i < own.rank(); ++i) at[static_cast<size_t>(i)] %= own[i];
                return x[Linear(own, at)];
              }));
    ExpectGuards({&x, &y});
  }
  RandomTensor x(DType::kF32, {4, 3}, rng_);
  ApiTensor y(DType::kF32, {4, 3});
  ApiInts few({1}), negative({1, -1});
  ExpectRefused(CALL(aclnnRepeat, x, few, y), 161002, {"repeats has 1 values", "2 to 8"});
  ExpectRefused(CALL(aclnnRepeat, x, negative, y), 161002, {"repeats", "-1", "0 or more"});
}

TEST_F(Movement, Pads) {
  for (int round = 0; round < 30; ++round) {
    const Dims dims = rng_.Shape(2, 3, 200);
    const int64_t n = dims.back(), left = rng_.Int(0, n - 1), right = rng_.Int(0, n - 1);
    Dims out = dims;
    out[dims.rank() - 1] += left + right;
    RandomTensor x(Any(), dims, rng_, round % 2);
    ApiTensor y(x.dtype(), out, &rng_, round % 3 == 1);
    ApiInts pads({left, right});
    ASSERT_EQ(CALL(aclnnReflectionPad1d, x, pads, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(out, [&](Index at) {
                int64_t i = std::abs(at.back() - left);
                at.back() = i < n ? i : 2 * (n - 1) - i;
                return x(at);
              }));
  }
  for (int round = 0; round < 30; ++round) {
    const Dims dims = rng_.Shape(1, 4, 200);
    std::vector<int64_t> pads(static_cast<size_t>(2 * rng_.Int(0, dims.rank())));
    Dims out = dims, before = Dims::Filled(dims.rank(), 0);
    for (size_t i = 0; i < pads.size(); ++i) {
      const int d = dims.rank() - 1 - static_cast<int>(i / 2);
      pads[i] = rng_.Int(out[d] > 1 ? -1 : 0, 3);
      out[d] += pads[i];
      if (i % 2 == 0) before[d] = pads[i];
    }
    RandomTensor x(Any(), dims, rng_, round % 2);
    ApiTensor y(x.dtype(), out, &rng_, round % 3 == 1);
    ApiInts list(pads);
    ApiScalar value(1.0f);
    ASSERT_EQ(CALL(aclnnConstantPadNd, x, list, value, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(out, [&](Index at) {
                for (int i = 0; i < dims.rank(); ++i) {
                  int64_t& v = at[static_cast<size_t>(i)];
                  v -= before[i];
                  if (v < 0 || v >= dims[i]) return 1.0;
                }
                return x(at);
              }));
    ExpectGuards({&x, &y});
  }
  RandomTensor x(DType::kF32, {4, 3}, rng_);
  ApiTensor y(DType::kF32, {4, 6});
  ApiInts wide({3, 0}), odd({1, 1, 1}), fine({1, 1});
  ExpectRefused(CALL(aclnnReflectionPad1d, x, wide, y), 161002, {"padding", "3", "less than 3"});
  ExpectRefused(CALL(aclnnReflectionPad1d, x, odd, y), 161002, {"padding has 3 values", "2"});
  ExpectRefused(CALL(aclnnReflectionPad1d, x, fine, y), 161002, {"out has shape [4,6]", "[4,5]"});
  ApiScalar zero(0.0f);
  ExpectRefused(CALL(aclnnConstantPadNd, x, odd, zero, y), 161002, {"pad has 3 values", "even"});
}

TEST_F(Movement, Triangles) {
  for (int round = 0; round < 30; ++round) {
    const Dims dims = rng_.Shape(2, 4, 300, round % 7 == 0);
    const int64_t k = rng_.Int(-4, 4);
    RandomTensor x(Any(), dims, rng_, round % 2);
    ApiTensor y(x.dtype(), dims, &rng_, round % 3 == 1);
    auto want = [&](bool upper) {
      return Make(dims, [&](const Index& at) {
        const int64_t d = at.back() - at[at.size() - 2];
        return (upper ? d >= k : d <= k) ? x(at) : 0.0;
      });
    };
    ASSERT_EQ(CALL(aclnnTril, x, k, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), want(false));
    ASSERT_EQ(CALL(aclnnTriu, x, k, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), want(true));
    ASSERT_EQ(CALL(aclnnInplaceTriu, x, k), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(x.Get(), want(true));
    ExpectGuards({&x, &y});
  }
  RandomTensor x(DType::kF32, {4}, rng_);
  ExpectRefused(CALL(aclnnInplaceTriu, x, 0), 161002, {"aclnnInplaceTriu", "selfRef has 1 dims"});
}

TEST_F(Movement, FillsAndCopies) {
  for (int round = 0; round < 30; ++round) {
    const Dims dims = rng_.Shape(0, 4, 300, round % 7 == 0);
    RandomTensor x(Any(), dims, rng_, round % 2);
    ApiScalar value(1.0f);
    ASSERT_EQ(CALL(aclnnInplaceFillScalar, x, value), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(x.Get(), std::vector<double>(x.values().size(), 1));
    ASSERT_EQ(CALL(aclnnInplaceZero, x), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(x.Get(), std::vector<double>(x.values().size(), 0));
    Dims own = dims;
    for (int i = 0; i < own.rank(); ++i) own[i] = rng_.Chance(0.3) ? 1 : own[i];
    if (own.rank() && rng_.Chance(0.3)) own.erase(0);
    const DType from = x.dtype() == DType::kBool ? DType::kBool : DType::kS32;
    RandomTensor src(from, own, rng_, round % 3 == 1);
    ASSERT_EQ(CALL(aclnnInplaceCopy, x, src), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(x.Get(), Make(dims, [&](const Index& at) { return src[BroadcastLinear(own, at)]; }));
    ExpectGuards({&x, &src});
  }
  RandomTensor x(DType::kF32, {4}, rng_), wide(DType::kF32, {2, 4}, rng_);
  ExpectRefused(CALL(aclnnInplaceCopy, x, wide), 161002, {"src has shape [2,4]", "broadcast to [4]"});
}

TEST_F(Movement, Roll) {
  for (int round = 0; round < 40; ++round) {
    const Dims dims = rng_.Shape(0, 4, 300, round % 7 == 0);
    std::vector<int64_t> shifts, axes;
    const bool flat = round % 4 == 0 || dims.rank() == 0;
    for (int64_t i = flat ? 1 : rng_.Int(1, 3); i > 0; --i) {
      shifts.push_back(rng_.Int(-9, 9));
      if (!flat) axes.push_back(rng_.Int(-dims.rank(), dims.rank() - 1));
    }
    RandomTensor x(Any(), dims, rng_, round % 2);
    ApiTensor y(x.dtype(), dims, &rng_, round % 3 == 1);
    ApiInts by(shifts), along(axes);
    ASSERT_EQ(CALL(aclnnRoll, x, by, along, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(dims, [&](Index at) {
                auto back = [](int64_t i, int64_t shift, int64_t n) { return ((i - shift) % n + n) % n; };
                if (flat) return x[back(Linear(dims, at), shifts[0], NumElements(dims))];
                for (size_t k = 0; k < axes.size(); ++k) {
                  const int64_t d = axes[k] < 0 ? axes[k] + dims.rank() : axes[k];
                  at[static_cast<size_t>(d)] =
                      back(at[static_cast<size_t>(d)], shifts[k], dims[static_cast<int>(d)]);
                }
                return x(at);
              }));
    ExpectGuards({&x, &y});
  }
  RandomTensor x(DType::kF32, {4, 3}, rng_);
  ApiTensor y(DType::kF32, {4, 3});
  ApiInts one({1}), two({0, 1}), far({2});
  ExpectRefused(CALL(aclnnRoll, x, one, two, y), 161002, {"shifts has 1 values", "2"});
  ExpectRefused(CALL(aclnnRoll, x, one, far, y), 161002, {"dims is 2", "-2 to 1"});
}

TEST_F(Movement, Im2col) {
  for (int round = 0; round < 30; ++round) {
    const int64_t n = rng_.Int(1, 2), c = rng_.Int(1, 3), h = rng_.Int(3, 9), w = rng_.Int(3, 9);
    const int64_t kh = rng_.Int(1, 3), kw = rng_.Int(1, 3), ph = rng_.Int(0, 3), pw = rng_.Int(0, 3);
    const int64_t sh = rng_.Int(1, 3), sw = rng_.Int(1, 3), dh = rng_.Int(1, 2), dw = rng_.Int(1, 2);
    if (h + 2 * ph < dh * (kh - 1) + 1 || w + 2 * pw < dw * (kw - 1) + 1) continue;
    const int64_t oh = (h + 2 * ph - dh * (kh - 1) - 1) / sh + 1,
                  ow = (w + 2 * pw - dw * (kw - 1) - 1) / sw + 1;
    const bool batched = round % 3;
    RandomTensor x(Any(), batched ? Dims{n, c, h, w} : Dims{c, h, w}, rng_, round % 2);
    const Dims out = batched ? Dims{n, c * kh * kw, oh * ow} : Dims{c * kh * kw, oh * ow};
    ApiTensor y(x.dtype(), out, &rng_, round % 3 == 1);
    ApiInts kernel({kh, kw}), dilation({dh, dw}), padding({ph, pw}), stride({sh, sw});
    ASSERT_EQ(CALL(aclnnIm2col, x, kernel, dilation, padding, stride, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(out, [&](const Index& at) {
                const int64_t row = at[at.size() - 2], position = at.back();
                const int64_t i = position / ow * sh - ph + row / kw % kh * dh;
                const int64_t j = position % ow * sw - pw + row % kw * dw;
                if (i < 0 || i >= h || j < 0 || j >= w) return 0.0;
                const int64_t image = batched ? at[0] : 0;
                return x[((image * c + row / (kh * kw)) * h + i) * w + j];
              }));
    ExpectGuards({&x, &y});
  }
  RandomTensor x(DType::kF32, {1, 1, 3, 3}, rng_);
  ApiTensor y(DType::kF32, {1, 4, 4});
  ApiInts two({2, 2}), one({1, 1}), zero({0, 0}), three({1, 1, 1}), wide({5, 5});
  ExpectRefused(CALL(aclnnIm2col, x, three, one, zero, one, y), 161002, {"kernelSize has 3 values"});
  ExpectRefused(CALL(aclnnIm2col, x, two, zero, zero, one, y), 161002, {"dilation", "0", "1 to"});
  ExpectRefused(CALL(aclnnIm2col, x, wide, one, zero, one, y), 161002, {"aclnnIm2col"});
}

}  // namespace
}  // namespace opsnn::capi
