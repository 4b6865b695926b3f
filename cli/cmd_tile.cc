// opsnn tile: the budget of one tile, block by block.
#include <cstdio>

#include "cli/cli.h"
#include "opsnn/planner.h"

namespace cli {
namespace {

struct Options {
  std::string tile, dtype = "f32", profile;
  int64_t m = 0, n = 0, k = 0;
  bool buckets = false, json = false;
  opsnn::TileQuestion question;
};

Json ToJson(const opsnn::TileBudget& b) {
  Json blocks = Json::array();
  for (const auto& i : b.items) blocks.push_back({{"block", i.block}, {"pool", i.pool}, {"bytes", i.bytes}});
  return {{"tile_m", b.tile_m},     {"tile_n", b.tile_n},           {"tile_k", b.tile_k},
          {"blocks", blocks},       {"total_bytes", b.total_bytes}, {"fits", b.fits},
          {"overflow", b.overflow}, {"product_us", b.time_us}};
}

Json ToJson(const opsnn::TileReport& r) {
  Json changes = Json::array(), retries = Json::array();
  for (const auto& c : r.changes) changes.push_back(ToJson(c));
  for (const auto& t : r.retries) {
    retries.push_back({{"tile_m", t.tile_m},
                       {"tile_n", t.tile_n},
                       {"tile_k", t.tile_k},
                       {"bytes", t.bytes},
                       {"available", t.available},
                       {"fits", t.fits}});
  }
  Json json = ToJson(r.tile);
  json["l1_available"] = r.l1_available;
  json["ub_available"] = r.ub_available;
  json["l0c_available"] = r.l0c_available;
  json["changes"] = changes;
  json["retries"] = retries;
  return json;
}

double KiB(int64_t bytes) { return static_cast<double>(bytes) / 1024; }

std::string TileText(const opsnn::TileBudget& b) {
  return std::to_string(b.tile_m) + "x" + std::to_string(b.tile_n) + "x" + std::to_string(b.tile_k);
}

void PrintRow(const std::string& name, const opsnn::TileBudget& b) {
  std::printf("  %-12s %18s", name.c_str(), TileText(b).c_str());
  for (const auto& i : b.items) std::printf(" %10.6g", KiB(i.bytes));
  std::printf(" %10.6g  %10.2f us  %s\n", KiB(b.total_bytes), b.time_us,
              b.fits ? "fits" : b.overflow.c_str());
}

void Print(const opsnn::TileReport& r, const Options& o) {
  std::printf("KiB in %s of a tile, A and B %s; L1 has %.6g", o.dtype.c_str(),
              o.question.double_buffer ? "twice" : "once", KiB(r.l1_available));
  if (o.question.pools) std::printf(", UB %.6g, L0C %.6g", KiB(r.ub_available), KiB(r.l0c_available));
  std::printf("\n  %-12s %18s", "", "m x n x k");
  for (const auto& i : r.tile.items) std::printf(" %10s", (i.block + " " + i.pool).c_str());
  std::printf(" %10s  %13s\n", "together", "product");
  PrintRow("this tile", r.tile);
  static const char* const kSides[] = {"tile_m / 2", "tile_m * 2", "tile_n / 2",
                                       "tile_n * 2", "tile_k / 2", "tile_k * 2"};
  for (size_t i = 0; i < r.changes.size(); ++i) PrintRow(kSides[i], r.changes[i]);
  for (const auto& t : r.retries) {
    std::printf("  try %lldx%lldx%lld: %lld of %lld bytes, %s\n", static_cast<long long>(t.tile_m),
                static_cast<long long>(t.tile_n), static_cast<long long>(t.tile_k),
                static_cast<long long>(t.bytes), static_cast<long long>(t.available),
                t.fits ? "fits" : "does not fit");
  }
}

Json ToJson(const opsnn::TileBuckets& b) {
  Json rows = Json::array();
  for (const auto& r : b.rows) {
    Json row = ToJson(r.tile);
    row["size"] = r.size;
    rows.push_back(std::move(row));
  }
  Json json = {{"buckets", rows}, {"cache", cli::ToJson(b.cache)}};
  if (b.m == 0) return json;
  json["bucket"] = {b.m, b.n, b.k};
  json["found"] = ToJson(b.found);
  json["own"] = ToJson(b.own);
  return json;
}

void Print(const opsnn::TileBuckets& b, const Options& o) {
  std::printf("KiB in %s of the tile of each preset size, A and B %s\n  %-12s %18s", o.dtype.c_str(),
              o.question.double_buffer ? "twice" : "once", "m = n = k", "m x n x k");
  for (const auto& i : b.rows.front().tile.items) std::printf(" %10s", (i.block + " " + i.pool).c_str());
  std::printf(" %10s  %13s\n", "together", "product");
  for (const auto& r : b.rows) PrintRow(std::to_string(r.size), r.tile);
  if (b.m > 0) {
    std::printf("%lldx%lldx%lld counts as %lldx%lldx%lld, the next sizes up%s\n", static_cast<long long>(o.m),
                static_cast<long long>(o.n), static_cast<long long>(o.k), static_cast<long long>(b.m),
                static_cast<long long>(b.n), static_cast<long long>(b.k),
                b.m < o.m || b.n < o.n || b.k < o.k ? "; beyond the largest that one" : "");
    PrintRow("its bucket's", b.found);
    PrintRow("its own", b.own);
  }
  std::printf("%lld tiles solved for, %lld found in the cache\n", static_cast<long long>(b.cache.misses),
              static_cast<long long>(b.cache.hits));
}

Status AskBuckets(const Options& o) {
  auto buckets = opsnn::AskTileBuckets(o.question, o.profile);
  if (!buckets.ok()) return buckets.status();
  if (o.json) {
    PrintJson(ToJson(*buckets));
  } else {
    Print(*buckets, o);
  }
  return opsnn::OkStatus();
}

Status Ask(Options& o) {
  opsnn::TileQuestion& q = o.question;
  if (o.buckets && !o.tile.empty())
    return Status(opsnn::Code::kInvalid,
                  "--buckets: got it with --tile; allowed: one of them, as buckets have tiles of their own");
  if (o.tile.empty() && o.m == 0 && o.n == 0 && o.k == 0 && !o.buckets)
    return Status(
        opsnn::Code::kInvalid,
        "tile: got neither a tile nor a product; allowed: --tile M,N,K, or --m --n --k for the solver's "
        "tile, or --buckets");
  if (!o.tile.empty()) {
    auto sides = ParseInts(o.tile, "--tile");
    if (!sides.ok()) return sides.status();
    if (sides->size() != 3)
      return Status(opsnn::Code::kInvalid,
                    "--tile: got \"" + o.tile + "\"; allowed: M,N,K, 0 for the solver's");
    q.tile_m = (*sides)[0], q.tile_n = (*sides)[1], q.tile_k = (*sides)[2];
  }
  const auto type = opsnn::DTypeFromName(o.dtype);
  if (!type)
    return Status(opsnn::Code::kInvalid,
                  "--dtype: got \"" + o.dtype + "\"; allowed: f32, f64, f16, bf16, s8, u8, s32");
  q.dtype = *type;
  q.m = o.m, q.n = o.n, q.k = o.k;
  std::erase(q.order, ',');
  if (o.buckets) return AskBuckets(o);
  auto report = opsnn::AskTile(q, o.profile);
  if (!report.ok()) return report.status();
  if (o.json) {
    PrintJson(ToJson(*report));
  } else {
    Print(*report, o);
  }
  return opsnn::OkStatus();
}

}  // namespace

void AddTile(CLI::App& app, Run& run) {
  auto* cmd = app.add_subcommand(
      "tile",
      "What a tile of a product and its chain keeps on chip, block by block, and which side changes what");
  auto o = std::make_shared<Options>();
  cmd->add_option("--tile", o->tile, "Rows, columns and depth, 128,256,64; a side of 0 is the solver's")
      ->check(NotEmpty("M,N,K"));
  cmd->add_option("--m", o->m, "Rows of the product")->check(IntIn(0, int64_t{1} << 40));
  cmd->add_option("--n", o->n, "Columns of the product")->check(IntIn(0, int64_t{1} << 40));
  cmd->add_option("--k", o->k, "Inner dimension")->check(IntIn(0, int64_t{1} << 40));
  cmd->add_option("--dtype", o->dtype, "Element type of A and B")->check(NotEmpty("f32, f16, bf16, s8, ..."));
  AddFlag(*cmd, "--double-buffer", o->question.double_buffer,
          "A and B twice: the next ones come in while these are used");
  cmd->add_option("--epilogue-blocks", o->question.epilogue_blocks,
                  "Blocks of the chain, each as large as C's")
      ->check(IntIn(0, 16));
  AddFlag(*cmd, "--pools", o->question.pools,
          "Charge each block to the memory that the profile names instead of all to L1");
  cmd->add_option("--order", o->question.order,
                  "Sides in the order in which they are halved until the tile fits, kmn or k,m,n; others "
                  "follow, longer first; default: the setting retry_order")
      ->check(NotEmpty("k, m and n in any order, as in kmn or k,m,n"));
  cmd->add_option("--profile", o->profile, "Device profile, e.g. host:l1_bytes=512K, Ascend910B1")
      ->check(NotEmpty("the name of a device profile"));
  AddFlag(*cmd, "--buckets", o->buckets,
          "Instead: the tiles of the preset sizes 256, 512, 1024 and 2048, and which of them the product of "
          "--m --n --k takes");
  AddFlag(*cmd, "--json", o->json, "Print JSON");
  cmd->callback([&run, o] { run = [o] { return Ask(*o); }; });
}

}  // namespace cli
