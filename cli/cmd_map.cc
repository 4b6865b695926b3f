// The decision map: what the judge says over (m, k), drawn as SVG.
#include <cmath>
#include <cstdio>

#include "cli/cli.h"
#include "opsnn/planner.h"

namespace cli {
namespace {

using opsnn::plan::Verdict;

struct MapOptions {
  int64_t n = 1024, batch = 1, least = 16, most = 8192;
  int steps = 4;  // per octave
  std::string epilogue = "relu", dtype = "f32", profile, out;
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

// Colours that stay apart for everybody: blue fuses, orange splits, grey is refused. The deeper, the more is
// won.
std::string Colour(const opsnn::plan::Decision& d) {
  if (d.verdict == Verdict::kRefuse) return "#bbbbbb";
  const double slower = std::max(d.time_fused_us, d.time_split_us),
               faster = std::min(d.time_fused_us, d.time_split_us);
  const double depth = faster > 0 ? std::min(1.0, std::log2(slower / faster)) : 0;
  const bool fuse = d.verdict != Verdict::kSplit;
  const int full[3] = {fuse ? 0 : 213, fuse ? 90 : 94, fuse ? 181 : 0};
  char text[8];
  const auto mix = [&](int i) { return static_cast<int>(225 + (full[i] - 225) * (0.25 + 0.75 * depth)); };
  std::snprintf(text, sizeof text, "#%02x%02x%02x", mix(0), mix(1), mix(2));
  return text;
}

std::string Escaped(const std::string& s) {
  std::string out;
  for (const char c : s) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

void Line(std::string& svg, const char* format, auto... values) {
  char text[1024];
  std::snprintf(text, sizeof text, format, values...);
  svg += text;
}

Result<std::string> Draw(const MapOptions& o, opsnn::DType dtype, const std::vector<std::string>& epilogue,
                         int counts[4]) {
  constexpr int kCell = 14, kLeft = 70, kTop = 50;
  const std::vector<int64_t> axis = Axis(o);
  const int size = kCell * static_cast<int>(axis.size());
  std::string svg, title;
  Line(svg,
       "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
       "font-size=\"11\">\n",
       kLeft + size + 20, kTop + size + 70);
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
      Line(svg,
           "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"><title>m=%lld k=%lld: %s, benefit "
           "%.3g us</title></rect>\n",
           kLeft + kCell * static_cast<int>(x), kTop + kCell * static_cast<int>(y), kCell, kCell,
           Colour(*d).c_str(), static_cast<long long>(e.m), static_cast<long long>(e.k), Name(d->verdict),
           d->benefit_us);
    }
  }
  svg +=
      "<text x=\"" + std::to_string(kLeft) + "\" y=\"20\" font-size=\"13\">" + Escaped(title) + "</text>\n";
  Line(svg, "<text x=\"%d\" y=\"38\">blue: fuse, orange: split, grey: refused; deeper: more to gain</text>\n",
       kLeft);
  for (size_t i = 0; i < axis.size(); i += static_cast<size_t>(o.steps)) {
    const int at = kCell * static_cast<int>(i);
    Line(svg, "<text x=\"%d\" y=\"%d\" transform=\"rotate(45 %d %d)\">%lld</text>\n", kLeft + at,
         kTop + size + 14, kLeft + at, kTop + size + 14, static_cast<long long>(axis[i]));
    Line(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%lld</text>\n", kLeft - 6, kTop + size - at - 3,
         static_cast<long long>(axis[i]));
  }
  Line(svg, "<text x=\"%d\" y=\"%d\">m</text>\n<text x=\"14\" y=\"%d\">k</text>\n</svg>\n", kLeft + size / 2,
       kTop + size + 56, kTop + size / 2);
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
      std::FILE* f = std::fopen(o->out.c_str(), "w");
      bool ok = f != nullptr && std::fwrite(svg->data(), 1, svg->size(), f) == svg->size();
      if (f) ok = std::fclose(f) == 0 && ok;
      if (!ok) return Status(opsnn::Code::kRuntime, "--out: \"" + o->out + "\" cannot be written");
      std::printf("%s: %d fuse, %d split, %d refuse\n", o->out.c_str(), counts[0], counts[1], counts[2]);
      return opsnn::OkStatus();
    };
  });
}

}  // namespace cli
