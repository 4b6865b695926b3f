#include <algorithm>
#include <cstdio>
#include <deque>
#include <optional>

#include "cli/cli.h"

namespace cli {
namespace {

void PrintTerms(const char* side, double total, const std::vector<opsnn::plan::CostTerm>& terms) {
  std::printf("    %-6s %10.2f us =", side, total);
  for (size_t i = 0; i < terms.size(); ++i)
    std::printf("%s %s %.2f", i ? " +" : "", terms[i].name.c_str(), terms[i].us);
  std::printf("\n");
}

void Print(const opsnn::plan::Decision& d) {
  std::printf("%s %s%s%s\n  %s, %s, profile %s\n  %s: %s%s\n", d.chain.c_str(), d.where.empty() ? "" : "at ",
              d.where.c_str(), "", d.shape.c_str(), d.dtype.c_str(), d.profile.c_str(), Name(d.verdict),
              d.reason.c_str(), d.rests_on_assumed ? " (rests on assumed figures)" : "");
  int64_t total = 0;
  for (const auto& b : d.budget) total += b.bytes;
  if (!d.budget.empty()) {
    std::printf("    budget %lld bytes =", static_cast<long long>(total));
    for (size_t i = 0; i < d.budget.size(); ++i) {
      std::printf("%s %s %lld (%s)", i ? " +" : "", d.budget[i].block.c_str(),
                  static_cast<long long>(d.budget[i].bytes), d.budget[i].pool.c_str());
    }
    std::printf("\n");
  }
  for (const auto& r : d.retries) {
    std::printf("    try %lldx%lldx%lld: %lld of %lld bytes, %s\n", static_cast<long long>(r.tile_m),
                static_cast<long long>(r.tile_n), static_cast<long long>(r.tile_k),
                static_cast<long long>(r.bytes), static_cast<long long>(r.available),
                r.fits ? "fits" : "does not fit");
  }
  if (!d.fused_terms.empty()) PrintTerms("fused", d.time_fused_us, d.fused_terms);
  if (!d.split_terms.empty()) PrintTerms("split", d.time_split_us, d.split_terms);
  if (!d.fused_terms.empty() || !d.split_terms.empty())
    std::printf("    benefit %.2f us, threshold %.2f us\n", d.benefit_us, d.threshold_us);
  for (const auto& r : d.regions) {
    const auto ll = [](int64_t v) { return static_cast<long long>(v); };
    std::printf("    rows %lld to %lld in blocks of %lld: %s (a block fused %.2f us, split %.2f us)\n",
                ll(r.first), ll(r.first + r.rows - 1), ll(r.block), Name(r.verdict), r.fused_us, r.split_us);
  }
  if (d.time_hybrid_us > 0) std::printf("    by regions %.2f us\n", d.time_hybrid_us);
  if (!d.regions.empty() && d.verdict == opsnn::plan::Verdict::kHybrid) {
    const auto count = [&](opsnn::plan::Verdict v) {
      int64_t blocks = 0;
      for (const auto& r : d.regions) blocks += r.verdict == v ? Blocks(r) : 0;
      return static_cast<long long>(blocks);
    };
    std::printf("    %lld blocks fused, %lld split\n", count(opsnn::plan::Verdict::kFuse),
                count(opsnn::plan::Verdict::kSplit));
  }
}

using opsnn::plan::Decision;

std::string EdgeText(const Decision& d) { return d.chain + (d.where.empty() ? "" : " at " + d.where); }

// Edges of the same graph for two profiles. The lists differ in length: an edge that only one profile fuses
// leaves others behind it, so edges are met by what they are and where.
struct Difference {
  std::vector<std::pair<const Decision*, const Decision*>> both;
  std::vector<const Decision*> alone;  // asked of one profile only

  Difference(const std::vector<Decision>& a, const std::vector<Decision>& b) {
    std::map<std::string, std::deque<const Decision*>> others;
    for (const Decision& d : b) others[EdgeText(d)].push_back(&d);
    for (const Decision& d : a) {
      auto& found = others[EdgeText(d)];
      if (found.empty()) {
        alone.push_back(&d);
        continue;
      }
      both.emplace_back(&d, found.front());
      found.pop_front();
    }
    for (const auto& [edge, rest] : others) alone.insert(alone.end(), rest.begin(), rest.end());
  }
  size_t same() const {
    return static_cast<size_t>(std::count_if(
        both.begin(), both.end(), [](const auto& p) { return p.first->verdict == p.second->verdict; }));
  }
};

Json DifferenceJson(const Difference& d) {
  Json list = Json::array(), alone = Json::array();
  const auto edge = [](const Decision& e, Json decisions) {
    return Json{
        {"chain", e.chain}, {"where", e.where}, {"shape", e.shape}, {"decisions", std::move(decisions)}};
  };
  for (const auto& [one, two] : d.both)
    if (one->verdict != two->verdict) list.push_back(edge(*one, Json::array({ToJson(*one), ToJson(*two)})));
  for (const Decision* one : d.alone) alone.push_back(edge(*one, Json::array({ToJson(*one)})));
  return {{"edges", d.both.size()}, {"same", d.same()}, {"different", list}, {"alone", alone}};
}

void Print(const Difference& d) {
  const auto side = [](const Decision& one) {
    std::printf("  %-14s %s: %s%s\n", one.profile.c_str(), Name(one.verdict), one.reason.c_str(),
                one.rests_on_assumed ? " (rests on assumed figures)" : "");
  };
  for (const auto& [one, two] : d.both) {
    if (one->verdict == two->verdict) continue;
    std::printf("%s, %s, %s\n", EdgeText(*one).c_str(), one->shape.c_str(), one->dtype.c_str());
    side(*one);
    side(*two);
  }
  for (const Decision* one : d.alone) {
    std::printf("%s, %s, %s, asked of one profile: what stands before it was decided otherwise\n",
                EdgeText(*one).c_str(), one->shape.c_str(), one->dtype.c_str());
    side(*one);
  }
  std::printf("%zu of %zu edges are decided alike", d.same(), d.both.size());
  if (!d.alone.empty()) std::printf("; %zu more were asked of one profile", d.alone.size());
  std::printf("\n");
}

// "fuse" for every edge, or "CHAIN=fuse" for edges whose chain or place holds CHAIN, of which there must be
// one.
Status CheckExpected(const std::vector<Decision>& decisions, const std::vector<std::string>& expected) {
  using opsnn::Code;
  std::string wrong;
  for (const std::string& e : expected) {
    const size_t eq = e.rfind('=');
    const std::string chain = eq == std::string::npos ? "" : e.substr(0, eq);
    const std::string verdict = eq == std::string::npos ? e : e.substr(eq + 1);
    if (verdict != "fuse" && verdict != "split" && verdict != "refuse" && verdict != "hybrid")
      return Status(Code::kInvalid,
                    "--expect: got \"" + e + "\"; allowed: fuse, split, refuse, hybrid or CHAIN=fuse");
    int matching = 0;
    for (const Decision& d : decisions) {
      if (d.chain.find(chain) == std::string::npos && d.where.find(chain) == std::string::npos) continue;
      ++matching;
      if (verdict == Name(d.verdict)) continue;
      wrong += (wrong.empty() ? "" : "; ") + EdgeText(d) + ": expected " + verdict + ", decided " +
               Name(d.verdict) + ", " + d.reason;
    }
    if (matching == 0) wrong += (wrong.empty() ? "" : "; ") + ("no edge for \"" + e + "\"");
  }
  return wrong.empty() ? opsnn::OkStatus() : Status(Code::kRuntime, "--expect: " + wrong);
}

Json ConvolutionsJson(const std::vector<opsnn::ConvolutionChoice>& list) {
  Json all = Json::array();
  for (const auto& c : list) {
    Json candidates = Json::array();
    for (const auto& k : c.candidates)
      candidates.push_back({{"name", k.name},
                            {"refused", k.refused},
                            {"multiply_adds", k.multiply_adds},
                            {"buffer_bytes", k.buffer_bytes}});
    all.push_back({{"node", c.node}, {"shape", c.shape}, {"candidates", candidates}, {"padding", c.padding}});
  }
  return all;
}

void PrintConvolutions(const std::vector<opsnn::ConvolutionChoice>& list) {
  for (const auto& c : list) {
    std::printf("%s\n  %s\n", c.node.c_str(), c.shape.c_str());
    for (const auto& k : c.candidates)
      std::printf("    %-36s %s\n", k.name.c_str(), k.refused.empty() ? "RUNS" : k.refused.c_str());
    if (!c.padding.empty()) std::printf("    %s\n", c.padding.c_str());
  }
  if (list.empty()) std::printf("no convolutions\n");
}

struct UnitSum {
  int kernels = 0;
  double operations = 0, moved = 0, hbm = 0, l2 = 0, l1 = 0;
};

double Moved(const opsnn::NodeTraffic& t) { return t.hbm_bytes + t.l2_bytes + t.l1_bytes; }

std::map<std::string, UnitSum> SumsByUnit(const std::vector<opsnn::NodeTraffic>& list) {
  std::map<std::string, UnitSum> units;
  for (const auto& t : list) {
    UnitSum& s = units[t.unit];
    ++s.kernels, s.operations += std::max(0.0, t.operations), s.moved += Moved(t);
    s.hbm += t.hbm_bytes, s.l2 += t.l2_bytes, s.l1 += t.l1_bytes;
  }
  return units;
}

Json TrafficJson(const std::vector<opsnn::NodeTraffic>& list) {
  Json nodes = Json::array(), sums = Json::object();
  for (const auto& t : list) {
    Json n = {{"node", t.node},
              {"op", t.op},
              {"unit", t.unit},
              {"operations", t.operations},
              {"hbm_bytes", t.hbm_bytes},
              {"l2_bytes", t.l2_bytes},
              {"l1_bytes", t.l1_bytes},
              {"ub_bytes", t.ub_bytes},
              {"l0c_bytes", t.l0c_bytes},
              {"loaded_bytes", t.loaded_bytes},
              {"bytes_per_operation", t.operations > 0 ? Json(Moved(t) / t.operations) : Json()}};
    if (t.tile_m > 0) n["tile"] = {t.tile_m, t.tile_n, t.tile_k};
    nodes.push_back(std::move(n));
  }
  for (const auto& [unit, s] : SumsByUnit(list))
    sums[unit] = {{"kernels", s.kernels}, {"operations", s.operations}, {"bytes", s.moved},
                  {"hbm_bytes", s.hbm},   {"l2_bytes", s.l2},           {"l1_bytes", s.l1}};
  return {{"nodes", nodes}, {"units", sums}};
}

// Counters of every kernel: operands and results by level, what passes UB and the accumulators, B/op.
void PrintTraffic(const std::vector<opsnn::NodeTraffic>& list) {
  constexpr double kMiB = 1048576;
  std::printf("%-8s %10s %9s %9s %9s %9s %9s %9s %8s  %s\n", "unit", "Mop", "HBM MiB", "L2", "L1", "UB",
              "L0C", "to cube", "B/op", "kernel");
  for (const auto& t : list) {
    std::printf("%-8s %10.3f %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f ", t.unit.c_str(),
                std::max(0.0, t.operations) / 1e6, t.hbm_bytes / kMiB, t.l2_bytes / kMiB, t.l1_bytes / kMiB,
                t.ub_bytes / kMiB, t.l0c_bytes / kMiB, t.loaded_bytes / kMiB);
    if (t.operations > 0) {
      std::printf("%8.3f", Moved(t) / t.operations);
    } else {
      std::printf("%8s", "-");
    }
    std::printf("  %s, %s", t.node.c_str(), t.op.c_str());
    if (t.tile_m > 0)
      std::printf(", tile %lldx%lldx%lld", static_cast<long long>(t.tile_m), static_cast<long long>(t.tile_n),
                  static_cast<long long>(t.tile_k));
    std::printf("\n");
  }
  for (const auto& [unit, s] : SumsByUnit(list))
    std::printf("%s: %d kernels, %.3f Mop, %.3f MiB (HBM %.3f, L2 %.3f, L1 %.3f)\n", unit.c_str(), s.kernels,
                s.operations / 1e6, s.moved / kMiB, s.hbm / kMiB, s.l2 / kMiB, s.l1 / kMiB);
}

double MiB(int64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

Json HolesJson(const opsnn::ArenaHoles& h) {
  return {{"node", h.node}, {"holes", h.count}, {"bytes", h.bytes}, {"largest_bytes", h.largest_bytes}};
}

// What of the arena is lost to holes, and what freed blocks hold.
void PrintFragmentation(const opsnn::RunStats& s) {
  const int64_t lost = s.peak_bytes - s.live_peak_bytes;
  std::printf(
      "  fragmentation: %.3f MiB of the arena (%.1f %%) is never needed at once, alignment takes %.3f\n",
      MiB(lost), s.peak_bytes > 0 ? 100.0 * MiB(lost) / MiB(s.peak_bytes) : 0.0, MiB(s.padding_bytes));
  const auto row = [](const char* when, const opsnn::ArenaHoles& h) {
    std::printf("    %s, %d holes of %.3f MiB together, the largest %.3f (while %.60s runs)\n", when, h.count,
                MiB(h.bytes), MiB(h.largest_bytes), h.node.c_str());
  };
  if (!s.holes_at_peak.node.empty()) row("where the most lives", s.holes_at_peak);
  if (!s.holes_most_scattered.node.empty())
    row("where free memory is most scattered", s.holes_most_scattered);
  std::printf("    freed blocks that wait: %lld of %.3f MiB together, the largest %.3f\n",
              static_cast<long long>(s.idle_blocks), MiB(s.idle_bytes), MiB(s.idle_largest_bytes));
}

Json MemoryJson(const opsnn::RunStats& s) {
  Json curve = Json::array(), tried = Json::array();
  for (const auto& n : s.nodes)
    curve.push_back(
        {{"node", n.node}, {"op", n.op}, {"live_bytes", n.live_bytes}, {"view", n.variant == "view"}});
  for (const auto& [name, bytes] : s.memory_tried) tried.push_back({{"strategy", name}, {"bytes", bytes}});
  return {{"arena_bytes", s.peak_bytes},
          {"live_peak_bytes", s.live_peak_bytes},
          {"io_bytes", s.io_bytes},
          {"constant_bytes", s.constant_bytes},
          {"weight_bytes", s.weight_bytes},
          {"plan_bytes", s.plan_bytes},
          {"scratch_bytes", s.scratch_bytes},
          {"idle_bytes", s.idle_bytes},
          {"idle_blocks", s.idle_blocks},
          {"idle_largest_bytes", s.idle_largest_bytes},
          {"total_bytes", s.total_bytes},
          {"views", s.views},
          {"in_place", s.in_place},
          {"fragmentation",
           {{"lost_bytes", s.peak_bytes - s.live_peak_bytes},
            {"padding_bytes", s.padding_bytes},
            {"at_peak", HolesJson(s.holes_at_peak)},
            {"most_scattered", HolesJson(s.holes_most_scattered)}}},
          {"strategy", s.memory_strategy},
          {"tried", tried},
          {"curve", curve}};
}

// What lives while each node runs, as a table with bars.
void PrintMemory(const opsnn::RunStats& s) {
  constexpr int kBar = 40;
  std::printf("memory: arena %.2f MiB by %s; %.2f MiB live at the peak; inputs and outputs %.2f MiB\n",
              MiB(s.peak_bytes), s.memory_strategy.c_str(), MiB(s.live_peak_bytes), MiB(s.io_bytes));
  std::printf(
      "  beside them: weights as read and folded %.2f MiB, packed %.2f, plans %.2f, scratch %.2f, blocks "
      "that "
      "wait %.2f; together %.2f MiB\n",
      MiB(s.constant_bytes), MiB(s.weight_bytes), MiB(s.plan_bytes), MiB(s.scratch_bytes), MiB(s.idle_bytes),
      MiB(s.total_bytes));
  std::printf(
      "  without memory of their own: %d views, %d results computed in place; %d nodes of the model, %zu "
      "steps\n",
      s.views, s.in_place, s.nodes_imported, s.nodes.size());
  PrintFragmentation(s);
  for (const auto& [name, bytes] : s.memory_tried)
    std::printf("  tried %-28s %10.2f MiB\n", name.c_str(), MiB(bytes));
  for (const auto& n : s.nodes) {
    const int length = s.live_peak_bytes > 0
                           ? static_cast<int>(n.live_bytes * kBar / std::max<int64_t>(s.live_peak_bytes, 1))
                           : 0;
    std::printf("  %9.3f MiB |%-*s| %-36.36s %.40s\n", MiB(n.live_bytes), kBar,
                std::string(static_cast<size_t>(std::min(length, kBar)), '#').c_str(), n.node.c_str(),
                n.op.c_str());
  }
}

struct ExplainOptions {
  std::string profile, other, save;
  std::vector<std::string> expect;
  bool json = false, graph = false, convolutions = false, memory = false, traffic = false;
  int top = 0;  // 0: every edge
};

// What is printed as JSON; an error that says so too where an expectation failed.
Status PrintExpected(Json what, const char* name, const Status& expected) {
  if (expected.ok()) {
    PrintJson(what);
  } else {
    PrintJson({{"ok", false},
               {"status", static_cast<int>(expected.code())},
               {"error", OneLine(expected.message())},
               {name, std::move(what)}});
  }
  return expected;
}

// Those where fusing gains most, most first, where `top` is not 0.
Status PrintEdges(const std::vector<Decision>& decisions, const Status& expected, int top, bool json) {
  std::vector<const Decision*> shown;
  for (const Decision& d : decisions) shown.push_back(&d);
  if (top > 0) {
    std::stable_sort(shown.begin(), shown.end(),
                     [](const Decision* a, const Decision* b) { return a->benefit_us > b->benefit_us; });
    shown.resize(std::min(shown.size(), static_cast<size_t>(top)));
  }
  if (json) {
    Json list = Json::array();
    for (const Decision* d : shown) list.push_back(ToJson(*d));
    return PrintExpected(std::move(list), "edges", expected);
  }
  int verdicts[4] = {};
  for (const Decision& d : decisions) ++verdicts[static_cast<int>(d.verdict)];
  for (const Decision* d : shown) Print(*d);
  if (decisions.empty()) {
    std::printf("no edges: nothing follows that could be fused\n");
  } else {
    std::printf("%zu edges: %d fuse, %d split, %d refuse, %d hybrid\n", decisions.size(), verdicts[0],
                verdicts[1], verdicts[2], verdicts[3]);
    const opsnn::PlanCacheUse c = opsnn::PlanCachesUsed().verdicts;
    if (c.hits + c.misses > 0)
      std::printf("verdicts by shape class: %lld decided, %lld found in the cache\n",
                  static_cast<long long>(c.misses), static_cast<long long>(c.hits));
  }
  return expected;
}

// Options that only another form of the command looks at.
Status CheckOptions(const ExplainOptions& o) {
  const auto contradicts = [](const char* one, const char* two, const char* allowed) {
    return Status(opsnn::Code::kInvalid, std::string(one) + ": got it with " + two + "; allowed: " + allowed);
  };
  const char* instead = o.memory         ? "--memory"
                        : o.traffic      ? "--traffic"
                        : o.convolutions ? "--convolutions"
                                         : nullptr;
  if (instead && !o.other.empty())
    return contradicts("--diff", instead, "one of them, as --diff shows edges");
  if (instead && o.top > 0) return contradicts("--top", instead, "one of them, as --top shows edges");
  if (o.top > 0 && !o.other.empty()) return contradicts("--top", "--diff", "one of them");
  if (o.graph && o.json) return contradicts("--graph", "--json", "one of them, as the graph is text");
  return opsnn::OkStatus();
}

// What is shown instead of edges: memory plan, traffic, convolutions, each that was asked for.
struct Instead {
  std::optional<opsnn::RunStats> memory;
  std::optional<std::vector<opsnn::NodeTraffic>> traffic;
  std::optional<std::vector<opsnn::ConvolutionChoice>> convolutions;

  static Result<Instead> Ask(opsnn::Model& model, const ExplainOptions& o, const opsnn::Shapes& shapes,
                             const opsnn::Feeds& values) {
    Instead i;
    if (o.memory) {
      auto stats = model.Plan(shapes, values);
      if (!stats.ok()) return stats.status();
      i.memory = std::move(*stats);
    }
    if (o.traffic) {
      auto list = model.Traffic(shapes, o.profile, values);
      if (!list.ok()) return list.status();
      i.traffic = std::move(*list);
    }
    if (o.convolutions) {
      auto list = model.Convolutions(shapes, values);
      if (!list.ok()) return list.status();
      i.convolutions = std::move(*list);
    }
    return i;
  }

  void Print() const {
    if (memory) PrintMemory(*memory);
    if (traffic) PrintTraffic(*traffic);
    if (convolutions) PrintConvolutions(*convolutions);
  }

  // Of one alone what it is; of several an object that names them.
  std::pair<std::string, Json> AsJson() const {
    Json all = Json::object();
    if (memory) all["memory"] = MemoryJson(*memory);
    if (traffic) all["traffic"] = TrafficJson(*traffic);
    if (convolutions) all["convolutions"] = ConvolutionsJson(*convolutions);
    if (all.size() > 1) return {"shown", std::move(all)};
    return {all.begin().key(), all.begin().value()};
  }
};

Status Explain(const Target& target, const ExplainOptions& o) {
  if (Status s = CheckOptions(o); !s.ok()) return s;
  auto model = target.Load(nullptr, true);
  if (!model.ok()) return model.status();
  if (!o.save.empty()) {
    if (Status s = model->Save(o.save); !s.ok()) return s.WithContext("--save");
  }
  opsnn::Shapes shapes;
  opsnn::Feeds values;  // shapes may be computed from them
  if (Status s = target.PlanInputs(*model, &shapes, &values); !s.ok()) return s;
  const bool edges = !o.memory && !o.traffic && !o.convolutions;
  std::vector<Decision> decisions;
  Status expected;
  if (edges || !o.expect.empty()) {
    auto decided = model->Explain(shapes, o.profile, values);
    if (!decided.ok()) return decided.status();
    decisions = std::move(*decided);
    expected = CheckExpected(decisions, o.expect);
    if (expected.code() == opsnn::Code::kInvalid) return expected;  // no verdict
  }
  Status status = expected;
  if (!edges) {
    auto instead = Instead::Ask(*model, o, shapes, values);
    if (!instead.ok()) return instead.status();
    if (o.json) {
      auto [name, json] = instead->AsJson();
      return PrintExpected(std::move(json), name.c_str(), expected);
    }
    instead->Print();
  } else if (!o.other.empty()) {
    auto others = model->Explain(shapes, o.other, values);
    if (!others.ok()) return others.status();
    const Difference difference{decisions, *others};
    if (o.json) return PrintExpected(DifferenceJson(difference), "difference", expected);
    Print(difference);
  } else {
    status = PrintEdges(decisions, expected, o.top, o.json);
  }
  if (o.graph) std::printf("%s", model->Dump(shapes, values).c_str());
  return status;
}

}  // namespace

void AddExplain(CLI::App& app, Run& run) {
  auto* cmd = app.add_subcommand(
      "explain", "Why was it fused, or not: budget, tries, cost of both sides, verdict, for every edge");
  auto target = std::make_shared<Target>();
  auto o = std::make_shared<ExplainOptions>();
  target->AddTo(*cmd, true);
  cmd->add_option("--profile", o->profile, "Device profile to ask, e.g. host, Ascend910B1")
      ->check(NotEmpty("the name of a device profile"));
  cmd->add_option("--diff", o->other, "A second device profile: only the edges that it decides otherwise")
      ->check(NotEmpty("the name of a device profile"));
  cmd->add_option("--expect", o->expect,
                  "fuse, split, refuse or hybrid, for all edges or CHAIN=fuse for those whose chain holds "
                  "CHAIN; fails where an edge is decided otherwise")
      ->check(NotEmpty("fuse, split, refuse, hybrid or CHAIN=fuse"));
  AddFlag(*cmd, "--training", target->training, "The backward pass follows: charge what it would lack");
  AddFlag(*cmd, "--precision-first", target->precision_first,
          "Weights are quantised and activations cheap: products and convolutions stay apart from them");
  cmd->add_option("--concurrent", target->concurrent,
                  "Operators that run at the same time and share the on-chip memories, 1 to 4096")
      ->check(IntIn(1, 4096));
  cmd->add_option("--top", o->top, "Only the N edges where fusing gains most, most first")
      ->check(IntIn(1, 1 << 20));
  AddFlag(*cmd, "--graph", o->graph, "Print the optimised graph as well");
  cmd->add_option(
         "--save", o->save,
         "Also write the graph as it was read, with its weights, as text that every command takes for a "
         "model")
      ->check(NotEmpty("a file"));
  AddFlag(*cmd, "--convolutions", o->convolutions,
          "Instead of edges: the algorithm of every convolution on this host, and why not the others");
  AddFlag(*cmd, "--memory", o->memory,
          "Instead of edges: the memory plan, peak, what was tried, what lives at every node");
  AddFlag(*cmd, "--traffic", o->traffic,
          "Instead of edges: what every kernel on this host moves by memory level and unit of the profile");
  AddFlag(*cmd, "--json", o->json, "Print JSON");
  cmd->callback([&run, target, o] { run = [target, o] { return Explain(*target, *o); }; });
}

}  // namespace cli
