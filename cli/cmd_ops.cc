#include <algorithm>
#include <cctype>
#include <cstdio>

#include "cli/cli.h"
#include "opsnn/system.h"

namespace cli {
namespace {

// Does `text` hold `part`, upper and lower case alike?
bool Contains(const std::string& text, const std::string& part) {
  auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

Json ToJson(const std::vector<opsnn::OperatorVariant>& variants) {
  Json list = Json::array();
  for (const auto& v : variants) list.push_back({{"name", v.name}, {"when", v.when}, {"example", v.example}});
  return list;
}

}  // namespace

void AddOps(CLI::App& app, Run& run) {
  auto* cmd = app.add_subcommand("ops", "The operators and C functions, with their element types");
  auto name = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  cmd->add_option("NAME", *name, "Only operators or functions whose name contains this")
      ->check(NotEmpty("a part of a name"));
  AddFlag(*cmd, "--json", *json, "Print JSON");
  cmd->callback([&run, name, json] {
    run = [name, json]() -> Status {
      Json list = Json::array();
      int shown = 0, implemented = 0;
      for (const auto& o : opsnn::ListOperators()) {
        if (!Contains(o.api, *name) && !Contains(o.op, *name)) continue;
        ++shown;
        implemented += o.status == "implemented";
        if (*json) {
          list.push_back({{"api", o.api},
                          {"operator", o.op},
                          {"status", o.status},
                          {"dtypes", o.dtypes},
                          {"doc", o.doc}});
          if (!o.variants.empty()) list.back()["variants"] = ToJson(o.variants);
          continue;
        }
        if (shown == 1)
          std::printf("%-40s %-24s %-12s %s\n", "C function", "operator", "status",
                      "element types of the first input");
        std::string dtypes;
        for (const auto& d : o.dtypes) dtypes += (dtypes.empty() ? "" : " ") + d;
        std::printf("%-40s %-24s %-12s %s\n", o.api.empty() ? "-" : o.api.c_str(),
                    o.op.empty() ? "-" : o.op.c_str(), o.status.c_str(), dtypes.c_str());
        if (name->empty() || (o.op != *name && o.api != *name)) continue;
        if (!o.doc.empty() && (o.api == *name || o.api.empty())) std::printf("    %s\n", o.doc.c_str());
        if (o.api == *name && !o.op.empty())
          std::printf("    built on the operator %s, whose own text opsnn ops %s shows\n", o.op.c_str(),
                      o.op.c_str());
        for (const auto& v : o.variants)
          std::printf("    %-28s %s%s%s\n", v.name.empty() ? "-" : v.name.c_str(), v.when.c_str(),
                      v.example.empty() ? "" : "; such as ", v.example.c_str());
      }
      if (shown == 0 && !name->empty())
        return Status(opsnn::Code::kInvalid,
                      "ops: got \"" + *name +
                          "\", which no operator or function contains; ops without a name "
                          "lists all");
      if (*json)
        PrintJson(list);
      else
        std::printf("%d listed, %d implemented\n", shown, implemented);
      return opsnn::OkStatus();
    };
  });
}

}  // namespace cli
