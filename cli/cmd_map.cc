// The decision map: what the judge says over (m, k), drawn as SVG or in letters.
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
  int steps = 4;    // per octave
  double gain = 5;  // percent, of the window
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

struct Point {
  int64_t m = 0, k = 0;
  opsnn::plan::Decision decision;
};

// The judge's words on every point, by k, then by m.
struct Map {
  std::vector<int64_t> axis;
  std::vector<Point> points;
  int counts[4] = {};

  const Point& at(size_t m, size_t k) const { return points[k * axis.size() + m]; }
};

Result<Map> Judge(const MapOptions& o, opsnn::DType dtype, const std::vector<std::string>& epilogue) {
  Map map;
  map.axis = Axis(o);
  for (const int64_t k : map.axis) {
    for (const int64_t m : map.axis) {
      opsnn::MatmulEdge e;
      e.m = m, e.k = k, e.n = o.n, e.batch = o.batch, e.dtype = dtype;
      e.epilogue = epilogue;
      auto d = opsnn::JudgeMatmul(e, o.profile);
      if (!d.ok()) return d.status();
      ++map.counts[static_cast<int>(d->verdict)];
      map.points.push_back({m, k, std::move(*d)});
    }
  }
  return map;
}

// What the chosen form gains over running the parts one after the other, as a share of their time.
double Gain(const opsnn::plan::Decision& d) {
  if ((d.verdict != Verdict::kFuse && d.verdict != Verdict::kHybrid) || d.time_split_us <= 0) return 0;
  return 1 - (d.verdict == Verdict::kHybrid ? d.time_hybrid_us : d.time_fused_us) / d.time_split_us;
}

// Where fusing is worth the trouble: the points that gain at least so much, what they span, the best of them.
// The tile had to shrink for the chain's blocks in `shrunk` points of the map.
struct Window {
  int points = 0, shrunk = 0;
  int64_t m[2] = {0, 0}, k[2] = {0, 0};
  const Point* best = nullptr;

  Window(const Map& map, double least) {
    for (const Point& p : map.points) {
      shrunk += p.decision.retries.size() > 1;
      const double gain = Gain(p.decision);
      if (gain < least || gain <= 0) continue;
      if (points++ == 0) m[0] = m[1] = p.m, k[0] = k[1] = p.k;
      m[0] = std::min(m[0], p.m), m[1] = std::max(m[1], p.m);
      k[0] = std::min(k[0], p.k), k[1] = std::max(k[1], p.k);
      if (!best || gain > Gain(best->decision)) best = &p;
    }
  }
};

std::string Title(const Map& map, const MapOptions& o) {
  const opsnn::plan::Decision& d = map.points.front().decision;
  return d.chain + ", n=" + std::to_string(o.n) + (o.batch > 1 ? " batch=" + std::to_string(o.batch) : "") +
         ", " + d.dtype + ", " + d.profile;
}

Svg Draw(const Map& map, const MapOptions& o) {
  constexpr int kCell = 14, kLeft = 70, kTop = 66;
  const std::vector<int64_t>& axis = map.axis;
  const int size = kCell * static_cast<int>(axis.size());
  Svg svg(std::max(kLeft + size + 20, 480), kTop + size + 70);
  for (size_t y = 0; y < axis.size(); ++y) {
    for (size_t x = 0; x < axis.size(); ++x) {
      const Point& p = map.at(x, axis.size() - 1 - y);
      char text[64];
      std::snprintf(text, sizeof text, ", benefit %.3g us, gain %.1f %%", p.decision.benefit_us,
                    100 * Gain(p.decision));
      const int left = kLeft + kCell * static_cast<int>(x), top = kTop + kCell * static_cast<int>(y);
      svg.Cell(
          left, top, kCell, Colour(p.decision),
          "m=" + std::to_string(p.m) + " k=" + std::to_string(p.k) + ": " + Name(p.decision.verdict) + text);
      const double gain = Gain(p.decision);
      if (gain > 0 && gain >= o.gain / 100) svg.Dot(left + kCell / 2, top + kCell / 2);
    }
  }
  svg.Text(kLeft, 20, Title(map, o), Svg::Anchor::kStart, 13);
  svg.Text(kLeft, 38, "blue: fuse, orange: split, green: by regions, grey: refused; deeper: more to gain");
  char window[64];
  std::snprintf(window, sizeof window, "dots: fusing gains %g %% or more", o.gain);
  svg.Text(kLeft, 54, window);
  for (size_t i = 0; i < axis.size(); i += static_cast<size_t>(o.steps)) {
    const int at = kCell * static_cast<int>(i);
    svg.Text(kLeft + at, kTop + size + 14, std::to_string(axis[i]), Svg::Anchor::kTilted);
    svg.Text(kLeft - 6, kTop + size - at - 3, std::to_string(axis[i]), Svg::Anchor::kEnd);
  }
  svg.Text(kLeft + size / 2, kTop + size + 56, "m");
  svg.Text(14, kTop + size / 2, "k");
  return svg;
}

// The same in letters, k upwards and m to the right.
void PrintText(const Map& map, const MapOptions& o) {
  std::printf("%s\n# fused or by regions, gains %g %% or more; + fused, ~ by regions, - split, x refused\n",
              Title(map, o).c_str(), o.gain);
  for (size_t y = map.axis.size(); y-- > 0;) {
    std::string row;
    for (size_t x = 0; x < map.axis.size(); ++x) {
      const opsnn::plan::Decision& d = map.at(x, y).decision;
      const bool pays = Gain(d) > 0 && Gain(d) >= o.gain / 100;
      row += pays ? '#' : "+-x~"[static_cast<int>(d.verdict)];
    }
    std::printf("%10lld %s\n", static_cast<long long>(map.axis[y]), row.c_str());
  }
  std::printf("%10s m from %lld to %lld, %d a doubling\n", "k", static_cast<long long>(map.axis.front()),
              static_cast<long long>(map.axis.back()), o.steps);
}

void Print(const Map& map, const Window& w, const MapOptions& o) {
  const auto ll = [](int64_t v) { return static_cast<long long>(v); };
  if (o.out.empty()) PrintText(map, o);
  std::printf("%s%d fuse, %d split, %d refuse, %d hybrid\n", o.out.empty() ? "" : (o.out + ": ").c_str(),
              map.counts[0], map.counts[1], map.counts[2], map.counts[3]);
  if (w.points == 0) {
    std::printf("window: fusing gains %g %% nowhere", o.gain);
  } else {
    std::printf(
        "window: fusing gains %g %% or more in %d of %zu points, within m %lld to %lld and k %lld to %lld; "
        "most "
        "at m=%lld k=%lld, %.1f %%",
        o.gain, w.points, map.points.size(), ll(w.m[0]), ll(w.m[1]), ll(w.k[0]), ll(w.k[1]), ll(w.best->m),
        ll(w.best->k), 100 * Gain(w.best->decision));
  }
  std::printf("; the tile had to shrink for the chain's blocks in %d\n", w.shrunk);
}

Json ToJson(const Map& map, const Window& w, const MapOptions& o) {
  Json json = {{"file", o.out.empty() ? Json() : Json(o.out)}};
  for (Verdict v : {Verdict::kFuse, Verdict::kSplit, Verdict::kRefuse, Verdict::kHybrid})
    json[Name(v)] = map.counts[static_cast<int>(v)];
  json["points"] = map.points.size();
  json["shrunk"] = w.shrunk;
  json["window"] = {{"gain_percent", o.gain}, {"points", w.points}};
  if (w.best) {
    json["window"]["m"] = {w.m[0], w.m[1]};
    json["window"]["k"] = {w.k[0], w.k[1]};
    json["window"]["best"] = {
        {"m", w.best->m}, {"k", w.best->k}, {"gain_percent", 100 * Gain(w.best->decision)}};
  }
  return json;
}

}  // namespace

void AddMap(CLI::App& app, Run& run) {
  auto* cmd = app.add_subcommand(
      "map",
      "Draw where a matmul and its chain would be fused, over m and k, and the window where that pays");
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
  cmd->add_option("--gain", o->gain, "Percent of the split time that fusing gains at least in the window")
      ->check(NumberIn(0, 100));
  cmd->add_option("--out", o->out, "The SVG file to write; without it the map is printed in letters")
      ->check(NotEmpty("a file"));
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
      auto map = Judge(*o, dtype, *stages);
      if (!map.ok()) return map.status();
      if (!o->out.empty()) {
        if (Status s = Draw(*map, *o).Write(o->out); !s.ok()) return s;
      }
      const Window window(*map, o->gain / 100);
      if (o->json) {
        PrintJson(ToJson(*map, window, *o));
      } else {
        Print(*map, window, *o);
      }
      return opsnn::OkStatus();
    };
  });
}

}  // namespace cli
