// The shape scan: what the first and the next call of many input sizes cost, as a table and a heat map.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>

#include "cli/cli.h"
#include "cli/svg.h"
#include "opsnn/system.h"

namespace cli {
namespace {

// One dim of an input that takes the values from, from + step, ..., to.
struct Axis {
  std::string input;
  size_t dim = 0;
  int64_t from = 1, to = 1, step = 1;
  int64_t count() const { return (to - from) / step + 1; }
  int64_t at(int64_t i) const { return from + i * step; }
  std::string Name() const { return input + "[" + std::to_string(dim) + "]"; }
};

struct Point {
  std::vector<int64_t> sizes;  // by axis
  double first_ms = 0, next_ms = 0, load_ms = 0;
  int64_t planned_bytes = 0, resident_bytes = 0;
  int64_t total_bytes = 0;  // planned for everything that the model holds
  int64_t plans = 0;        // made so far by the model that ran it
  int64_t plans_found = 0;  // and found by its later runs
};

constexpr int64_t kMostSizes = 10000;

struct ScanOptions {
  std::vector<std::string> vary;
  int random = 0, runs = 3;
  bool cold = false, json = false;
  std::string out;
};

Result<Axis> ParseAxis(const std::string& text, const opsnn::Shapes& shapes) {
  const Status bad(opsnn::Code::kInvalid,
                   "--vary: got \"" + text +
                       "\"; allowed: INPUT:DIM=FROM..TO or INPUT:DIM=FROM..TO:STEP with "
                       "1 <= FROM <= TO and STEP from 1, x:3=32..1024:32");
  const size_t eq = text.rfind('='), colon = text.rfind(':', eq);
  if (eq == std::string::npos || colon == std::string::npos) return bad;
  Axis a;
  a.input = text.substr(0, colon);
  unsigned long long dim = 0;
  long long from = 0, to = 0, step = 1;
  int used = 0;
  const std::string numbers = text.substr(colon + 1);
  if (std::sscanf(numbers.c_str(), "%llu=%lld..%lld%n:%lld%n", &dim, &from, &to, &used, &step, &used) < 3 ||
      used != static_cast<int>(numbers.size()) || from < 1 || to < from || step < 1)
    return bad;
  const auto it = shapes.find(a.input);
  if (it == shapes.end() || dim >= it->second.size())
    return Status(opsnn::Code::kInvalid,
                  "--vary: got dim " + std::to_string(dim) + " of input \"" + a.input + "\"; allowed: " +
                      (it == shapes.end() ? "inputs of the model"
                                          : "dims 0 to " + std::to_string(it->second.size() - 1)));
  a.dim = dim, a.from = from, a.to = to, a.step = step;
  return a;
}

// Without pages of files: code that is touched belongs to the program, whatever models it runs.
int64_t ResidentBytes() {
  long long pages = 0, of_files = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%*d %lld %lld", &pages, &of_files) != 2) pages = of_files = 0;
    std::fclose(f);
  }
  return (pages - of_files) * sysconf(_SC_PAGESIZE);
}

double Ms(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

Status MeasurePoint(opsnn::Model& model, const opsnn::Feeds& feeds, int runs, Point* p) {
  std::vector<opsnn::Tensor> outputs;
  std::vector<double> next;
  for (int i = 0; i <= runs; ++i) {
    outputs.clear();  // both get new ones, so that they differ in nothing but planning
    const auto start = std::chrono::steady_clock::now();
    if (Status s = model.Run(feeds, &outputs); !s.ok()) return s;
    i == 0 ? void(p->first_ms = Ms(start)) : next.push_back(Ms(start));
  }
  p->next_ms = Median(next);
  p->resident_bytes = ResidentBytes();
  opsnn::RunStats plan;
  if (auto again = model.RunProfiled(feeds, &plan); !again.ok()) return again.status();
  p->planned_bytes = plan.peak_bytes;
  p->total_bytes = plan.total_bytes;
  p->plans = plan.plans_made, p->plans_found = plan.plans_found;
  return opsnn::OkStatus();
}

// The sizes to visit: every combination, or `random` drawn from them.
Result<std::vector<Point>> Points(const std::vector<Axis>& axes, const ScanOptions& o, uint64_t seed) {
  std::vector<Point> points;
  std::mt19937_64 engine(seed);
  double all = 1;
  for (const Axis& a : axes) all *= static_cast<double>(a.count());
  if (o.random == 0 && all > kMostSizes) {
    char count[32];  // a product of counts may be more than 64 bits hold
    std::snprintf(count, sizeof count, all < 1e15 ? "%.0f" : "%.3g", all);
    return Status(opsnn::Code::kInvalid, "--vary: asks for " + std::string(count) +
                                             " sizes; allowed: at most 10000, or --random N of them");
  }
  const int64_t n = o.random > 0 ? o.random : static_cast<int64_t>(all);
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i;
    Point p;
    for (const Axis& a : axes) {
      const auto count = static_cast<uint64_t>(a.count());
      p.sizes.push_back(
          a.at(static_cast<int64_t>((o.random > 0 ? engine() : static_cast<uint64_t>(rest)) % count)));
      rest /= a.count();
    }
    points.push_back(std::move(p));
  }
  return points;
}

// First call over later ones, from grey (1x) to a full red (2x and more).
Status Draw(const std::string& file, const std::string& title, const std::vector<Axis>& axes,
            const std::vector<Point>& points) {
  constexpr int kCell = 18, kLeft = 80, kTop = 50, kRed[3] = {190, 30, 45};
  for (const Axis& a : axes)
    if (a.count() > kMostSizes)
      return Status(opsnn::Code::kInvalid, "--out: " + a.Name() + " has " + std::to_string(a.count()) +
                                               " sizes; allowed: up to " + std::to_string(kMostSizes));
  const int columns = static_cast<int>(axes[0].count());
  const int rows = axes.size() > 1 ? static_cast<int>(axes[1].count()) : 1;
  Svg svg(std::max(kLeft + columns * kCell + 20, 420), kTop + rows * kCell + 80);
  svg.Text(kLeft, 20, title, Svg::Anchor::kStart, 13);
  svg.Text(kLeft, 38, "first call / later ones: grey 1x, red 2x and more");
  for (const Point& p : points) {
    const auto column = static_cast<int>((p.sizes[0] - axes[0].from) / axes[0].step);
    const int row = axes.size() > 1 ? static_cast<int>((p.sizes[1] - axes[1].from) / axes[1].step) : 0;
    char text[160];
    std::snprintf(text, sizeof text, ": first %.3f ms, then %.3f ms", p.first_ms, p.next_ms);
    std::string where = std::to_string(p.sizes[0]);
    if (axes.size() > 1) where += " x " + std::to_string(p.sizes[1]);
    svg.Cell(kLeft + column * kCell, kTop + (rows - 1 - row) * kCell, kCell,
             Tint(kRed, std::clamp(p.first_ms / p.next_ms - 1, 0.0, 1.0)), where + text);
  }
  const int bottom = kTop + rows * kCell;
  for (int i = 0; i < columns; i += std::max(1, columns / 16))
    svg.Text(kLeft + i * kCell, bottom + 14, std::to_string(axes[0].at(i)), Svg::Anchor::kTilted);
  for (int i = 0; axes.size() > 1 && i < rows; i += std::max(1, rows / 16))
    svg.Text(kLeft - 6, bottom - i * kCell - 4, std::to_string(axes[1].at(i)), Svg::Anchor::kEnd);
  svg.Text(kLeft + columns * kCell / 2, bottom + 60, axes[0].Name());
  if (axes.size() > 1) svg.Text(10, kTop - 8, axes[1].Name());
  return svg.Write(file);
}

// `before`: resident without the model, which is the program and its libraries.
void Print(const std::vector<Axis>& axes, const std::vector<Point>& points, const ScanOptions& o,
           int64_t before) {
  std::vector<double> ratios, cold;
  int64_t planned = 0;
  for (const Axis& a : axes) std::printf("%12.12s ", a.Name().c_str());
  std::printf("%10s %10s %7s %12s %13s%s\n", "first ms", "next ms", "ratio", "planned MiB", "resident MiB",
              o.cold ? "   loading ms" : "");
  for (const Point& p : points) {
    for (int64_t s : p.sizes) std::printf("%12lld ", static_cast<long long>(s));
    ratios.push_back(p.first_ms / p.next_ms);
    cold.push_back((p.load_ms + p.first_ms) / p.next_ms);
    planned = std::max(planned, p.planned_bytes);
    std::printf("%10.3f %10.3f %7.2f %12.2f %13.2f", p.first_ms, p.next_ms, ratios.back(),
                p.planned_bytes / 1048576.0, p.resident_bytes / 1048576.0);
    if (o.cold) std::printf(" %12.3f", p.load_ms);
    std::printf("\n");
  }
  std::printf("%zu sizes: first call %.2f times a later one (median), %.2f at most", points.size(),
              Median(ratios), *std::max_element(ratios.begin(), ratios.end()));
  if (o.cold) std::printf("; with the loading of the model %.2f", Median(cold));
  if (!o.cold)
    std::printf("; %lld plans made, %lld times found", static_cast<long long>(points.back().plans),
                static_cast<long long>(points.back().plans_found));
  std::printf(
      "\nplanned peak %.2f MiB, resident %.2f MiB after the first size, %.2f after half, %.2f at the end\n",
      planned / 1048576.0, points.front().resident_bytes / 1048576.0,
      points[points.size() / 2].resident_bytes / 1048576.0, points.back().resident_bytes / 1048576.0);
  int64_t total = 0, resident = 0;
  for (const Point& p : points) {
    total = std::max(total, p.total_bytes);
    resident = std::max(resident, p.resident_bytes - before);
  }
  std::printf(
      "everything accounted for together: %.2f MiB; at most %.2f MiB came to the %.2f that were resident "
      "without "
      "the model (%.2f times)\n",
      total / 1048576.0, resident / 1048576.0, before / 1048576.0,
      static_cast<double>(resident) / static_cast<double>(total));
}

Json ToJson(const std::vector<Axis>& axes, const std::vector<Point>& points) {
  Json list = Json::array();
  for (const Point& p : points) {
    Json sizes;
    for (size_t i = 0; i < axes.size(); ++i) sizes[axes[i].Name()] = p.sizes[i];
    list.push_back({{"sizes", sizes},
                    {"first_ms", p.first_ms},
                    {"next_ms", p.next_ms},
                    {"load_ms", p.load_ms},
                    {"planned_bytes", p.planned_bytes},
                    {"total_bytes", p.total_bytes},
                    {"plans", p.plans},
                    {"plans_found", p.plans_found},
                    {"resident_bytes", p.resident_bytes}});
  }
  return {{"threads", opsnn::GetSystemInfo().threads}, {"points", list}};
}

Status Scan(const Target& target, const ScanOptions& o) {
  const int64_t before = ResidentBytes();
  auto model = target.Load();
  if (!model.ok()) return model.status();
  opsnn::Shapes shapes;
  opsnn::Feeds given;
  if (Status s = target.PlanInputs(*model, &shapes, &given); !s.ok()) return s;
  std::vector<Axis> axes;
  for (const std::string& text : o.vary) {
    auto axis = ParseAxis(text, shapes);
    if (!axis.ok()) return axis.status();
    if (given.count(axis->input))
      return Status(opsnn::Code::kInvalid, "--vary: input \"" + axis->input + "\" is also given by --input");
    axes.push_back(*axis);
  }
  auto points = Points(axes, o, target.seed);
  if (!points.ok()) return points.status();
  Progress progress("scan");
  for (size_t i = 0; i < points->size(); ++i) {
    Point& p = (*points)[i];
    for (size_t a = 0; a < axes.size(); ++a) shapes[axes[a].input][axes[a].dim] = p.sizes[a];
    if (o.cold) {
      const auto start = std::chrono::steady_clock::now();
      auto again = target.Load();
      if (!again.ok()) return again.status();
      p.load_ms = Ms(start);
      model = std::move(again);
    }
    auto feeds = model->RandomFeeds(shapes, target.seed);
    if (!feeds.ok()) return feeds.status();
    for (auto& [key, tensor] : given) (*feeds)[key] = tensor;
    if (Status s = MeasurePoint(*model, *feeds, o.runs, &p); !s.ok()) return s;
    progress.Update(static_cast<int>(i) + 1, static_cast<int>(points->size()));
  }
  if (!o.out.empty()) {
    if (Status s = Draw(o.out, target.Describe(), axes, *points); !s.ok()) return s;
  }
  if (o.json)
    PrintJson(ToJson(axes, *points));
  else
    Print(axes, *points, o, before);
  return opsnn::OkStatus();
}

}  // namespace

void AddScan(CLI::App& app, Run& run) {
  auto* cmd =
      app.add_subcommand("scan", "First and later calls of a model over many input sizes; heat map as SVG");
  auto target = std::make_shared<Target>();
  auto o = std::make_shared<ScanOptions>();
  target->AddTo(*cmd, false);
  cmd->add_option("--vary", o->vary, "INPUT:DIM=FROM..TO:STEP: a dim that is scanned; one or two of them")
      ->required()
      ->expected(1, 2);
  cmd->add_option("--random", o->random, "Visit N random sizes instead of all")->check(IntIn(1, 10000));
  cmd->add_option("--runs", o->runs, "Later calls of each size")->check(IntIn(1, 1000));
  AddFlag(*cmd, "--cold", o->cold, "Load the model anew for every size: what compiling per size would cost");
  cmd->add_option("--out", o->out, "The SVG file to write")->check(NotEmpty("a file"));
  AddFlag(*cmd, "--json", o->json, "Print JSON");
  cmd->callback([&run, target, o] { run = [target, o] { return Scan(*target, *o); }; });
}

}  // namespace cli
