#include <cstdio>
#include <filesystem>
#include <map>

#include "cli/cli.h"

namespace cli {
namespace {

std::string Dims(const std::vector<int64_t>& dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) s += (i ? "," : "") + std::to_string(dims[i]);
  return s + "]";
}

// A value name as a file name: path separators and other awkward characters become '_'.
std::string FileName(const std::string& value) {
  std::string s = value;
  for (char& c : s) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '_') c = '_';
  }
  return s.empty() || s[0] == '.' ? "_" + s : s;
}

}  // namespace

void AddRun(CLI::App& app, Run& run) {
  auto* cmd = app.add_subcommand("run", "Run a model and write its outputs as NAME.npy");
  auto target = std::make_shared<Target>();
  auto output = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  target->AddTo(*cmd, false);
  cmd->add_option("--output", *output,
                  "Folder for the outputs (made if it does not exist); none are written without it")
      ->check(NotEmpty("the name of a folder"));
  AddFlag(*cmd, "--json", *json, "Print JSON");
  cmd->callback([&run, target, output, json] {
    run = [target, output, json]() -> Status {
      auto model = target->Load();
      if (!model.ok()) return model.status();
      auto feeds = target->MakeFeeds(*model);
      if (!feeds.ok()) return feeds.status();
      if (!output->empty()) {
        std::error_code error;
        std::filesystem::create_directories(*output, error);
        std::error_code ignored;
        if (!std::filesystem::is_directory(*output, ignored)) {
          return Status(opsnn::Code::kInvalid,
                        "--output: cannot make folder " + *output +
                            (error ? " (" + error.message() + ")" : " (a file of that name exists)"));
        }
      }
      std::map<std::string, std::string> written;  // file name, the output in it
      for (const opsnn::ValueInfo& v : model->outputs()) {
        const auto [other, fresh] = written.emplace(FileName(v.name), v.name);
        if (!output->empty() && !fresh)
          return Status(opsnn::Code::kInvalid, "--output: outputs \"" + other->second + "\" and \"" + v.name +
                                                   "\" would both be written to " + other->first + ".npy");
      }
      auto results = model->Run(*feeds);
      if (!results.ok()) return results.status();
      Json list = Json::array();
      for (size_t i = 0; i < results->size(); ++i) {
        const std::string& name = model->outputs()[i].name;
        const opsnn::Tensor& t = (*results)[i];
        std::string file;
        if (!output->empty()) {
          file = *output + "/" + FileName(name) + ".npy";
          if (Status s = opsnn::SaveNpy(file, t); !s.ok()) return s;
        }
        list.push_back(
            {{"name", name}, {"dtype", opsnn::Name(t.dtype())}, {"dims", t.dims()}, {"file", file}});
        if (!*json) {
          const std::vector<double> v = t.ToDoubles();
          double lo = v.empty() ? 0 : v[0], hi = lo, sum = 0;
          for (double x : v) lo = std::min(lo, x), hi = std::max(hi, x), sum += x;
          std::printf("%s %s %s min %.6g max %.6g mean %.6g%s%s\n", name.c_str(), opsnn::Name(t.dtype()),
                      Dims(t.dims()).c_str(), lo, hi, v.empty() ? 0.0 : sum / static_cast<double>(v.size()),
                      file.empty() ? "" : " -> ", file.c_str());
        }
      }
      if (*json) PrintJson({{"model", target->name}, {"outputs", list}, {"notes", Notes()}});
      return opsnn::OkStatus();
    };
  });
}

}  // namespace cli
