// The decision map: what the judge says over (m, k), drawn as SVG.
#include <cmath>
#include <cstdio>

#include "cli/cli.h"
#include "cli/svg.h"
#include "opsnn/planner.h"

namespace cli {
namespace {

using opsnn::plan::Verdict;

struct MapOptions {
  int64_t n = 1024, batch = 1, least = 16, most = 8192;
  int steps = 4;  // per octave
  std::string epilogue = "relu", dtype = "f32", profile, out;
  bool json = false;
};

// least, ..., most in equal ratios.
std::vector<int64_t> Axis(const MapOptions& o) {
  std::vector<int64_t> sizes;
  for (int i = 0;; ++i) {
    const auto v =
        static_cast<int64_t>(std::llround(static_cast<double>(o.least) * std::exp2(i / double(o.steps))));
    if (v > o.most) return sizes;
    if (sizes.empty() || v > sizes.back()) sizes.push_back(v);
  }
}

// Colours that stay apart for everybody: blue fuses, orange splits, green does either by regions, grey is
// refused. The deeper, the more is won.
std::string Colour(const opsnn::plan::Decision& d) {
  if (d.verdict == Verdict::kRefuse) return "#bbbbbb";
  const bool hybrid = d.verdict == Verdict::kHybrid;
  const double slower = std::max(d.time_fused_us, d.time_split_us),
               faster = hybrid ? d.time_hybrid_us : std::min(d.time_fused_us, d.time_split_us);
  const double depth = faster > 0 ? std::min(1.0, std::log2(slower / faster)) : 0;
  const bool fuse = d.verdict != Verdict::kSplit;
  const int full[3] = {fuse ? 0 : 213, hybrid ? 158 : fuse ? 90 : 94, hybrid ? 115 : fuse ? 181 : 0};
  return Tint(full, 0.25 + 0.75 * depth);
}

Result<Svg> Draw(const MapOptions& o, opsnn::DType dtype, const std::vector<std::string>& epilogue,
                 int counts[4]) {
  constexpr int kCell = 14, kLeft = 70, kTop = 50;
  const std::vector<int64_t> axis = Axis(o);
  const int size = kCell * static_cast<int>(axis.size());
  Svg svg(kLeft + size + 20, kTop + size + 70);
  std::string title;
  for (size_t y = 0; y < axis.size(); ++y) {
    for (size_t x = 0; x < axis.size(); ++x) {
      opsnn::MatmulEdge e;
      e.m = axis[x], e.k = axis[axis.size() - 1 - y], e.n = o.n, e.batch = o.batch, e.dtype = dtype;
      e.epilogue = epilogue;
      auto d = opsnn::JudgeMatmul(e, o.profile);
      if (!d.ok()) return d.status();
      ++counts[static_cast<int>(d->verdict)];
      title = d->chain + ", n=" + std::to_string(o.n) +
              (o.batch > 1 ? " batch=" + std::to_string(o.batch) : "") + ", " + d->dtype + ", " + d->profile;
      char benefit[32];
      std::snprintf(benefit, sizeof benefit, "%.3g", d->benefit_us);
      svg.Cell(kLeft + kCell * static_cast<int>(x), kTop + kCell * static_cast<int>(y), kCell, Colour(*d),
               "m=" + std::to_string(e.m) + " k=" + std::to_string(e.k) + ": " + Name(d->verdict) +
                   ", benefit " + benefit + " us");
    }
  }
  svg.Text(kLeft, 20, title, Svg::Anchor::kStart, 13);
  svg.Text(kLeft, 38, "blue: fuse, orange: split, green: by regions, grey: refused; deeper: more to gain");
  for (size_t i = 0; i < axis.size(); i += static_cast<size_t>(o.steps)) {
    const int at = kCell * static_cast<int>(i);
    svg.Text(kLeft + at, kTop + size + 14, std::to_string(axis[i]), Svg::Anchor::kTilted);
    svg.Text(kLeft - 6, kTop + size - at - 3, std::to_string(axis[i]), Svg::Anchor::kEnd);
  }
  svg.Text(kLeft + size / 2, kTop + size + 56, "m");
  svg.Text(14, kTop + size / 2, "k");
  return svg;
}

}  // namespace

void AddMap(CLI::App& app, Run& run) {
  auto* cmd =
      app.add_subcommand("map", "Draw where a matmul and its chain would be fused, over m and k, as SVG");
  auto o = std::make_shared<MapOptions>();
  constexpr uint64_t kMost = 1 << 30;
  cmd->add_option("--n", o->n, "Columns of the product")->check(IntIn(1, kMost));
  cmd->add_option("--batch", o->batch, "Number of products")->check(IntIn(1, kMost));
  cmd->add_option("--from", o->least, "Least m and k")->check(IntIn(1, kMost));
  cmd->add_option("--to", o->most, "Greatest m and k")->check(IntIn(1, kMost));
  cmd->add_option("--steps", o->steps, "Steps per doubling")->check(IntIn(1, 16));
  cmd->add_option("--epilogue", o->epilogue, "Stages behind the product: bias,gelu")
      ->check(NotEmpty("stages, e.g. bias,relu"));
  cmd->add_option("--dtype", o->dtype, "f32, f16 or bf16")->check(OneOf({"f32", "f16", "bf16"}));
  cmd->add_option("--profile", o->profile, "Device profile to ask, e.g. host, Ascend910B1")
      ->check(NotEmpty("the name of a device profile"));
  cmd->add_option("--out", o->out, "The SVG file to write")->required()->check(NotEmpty("a file"));
  AddFlag(*cmd, "--json", o->json, "Print JSON");
  cmd->callback([&run, o] {
    run = [o]() -> Status {
      if (o->most < o->least)
        return Status(opsnn::Code::kInvalid, "--to: got " + std::to_string(o->most) + "; allowed: --from (" +
                                                 std::to_string(o->least) + ") and up");
      auto stages = ParseList(o->epilogue, "--epilogue", "a stage");
      if (!stages.ok()) return stages.status();
      const opsnn::DType dtype = o->dtype == "f16"    ? opsnn::DType::kF16
                                 : o->dtype == "bf16" ? opsnn::DType::kBF16
                                                      : opsnn::DType::kF32;
      int counts[4] = {};
      auto svg = Draw(*o, dtype, *stages, counts);
      if (!svg.ok()) return svg.status();
      if (Status s = svg->Write(o->out); !s.ok()) return s;
      if (o->json) {
        Json counted = {{"file", o->out}};
        for (Verdict v : {Verdict::kFuse, Verdict::kSplit, Verdict::kRefuse, Verdict::kHybrid})
          counted[Name(v)] = counts[static_cast<int>(v)];
        PrintJson(counted);
        return opsnn::OkStatus();
      }
      std::printf("%s: %d fuse, %d split, %d refuse, %d hybrid\n", o->out.c_str(), counts[0], counts[1],
                  counts[2], counts[3]);
      return opsnn::OkStatus();
    };
  });
}

}  // namespace cli
