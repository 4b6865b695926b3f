// Checks of option values: what was got, what is allowed.
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "cli/cli.h"

namespace cli {
namespace {

std::string Got(const std::string& value, const std::string& allowed) {
  return "got \"" + value + "\"; allowed: " + allowed;
}

}  // namespace

CLI::Validator IntIn(uint64_t lo, uint64_t hi) {
  const std::string allowed = "an integer from " + std::to_string(lo) + " to " + std::to_string(hi);
  return CLI::Validator(
      [lo, hi, allowed](std::string& text) {
        const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
        errno = 0;
        const unsigned long long v = digits ? std::strtoull(text.c_str(), nullptr, 10) : 0;
        return digits && errno == 0 && v >= lo && v <= hi ? std::string() : Got(text, allowed);
      },
      "");
}

CLI::Validator NumberIn(double lo, double hi) {
  char range[64];
  std::snprintf(range, sizeof range, "a number from %g to %g", lo, hi);
  return CLI::Validator(
      [lo, hi, allowed = std::string(range)](std::string& text) {
        char* end = nullptr;
        const double v = std::strtod(text.c_str(), &end);  // NaN fails both comparisons
        return !text.empty() && *end == '\0' && v >= lo && v <= hi ? std::string() : Got(text, allowed);
      },
      "");
}

CLI::Validator OneOf(std::vector<std::string> words) {
  std::string allowed;
  for (const std::string& w : words) allowed += (allowed.empty() ? "" : ", ") + w;
  return CLI::Validator(
      [words = std::move(words), allowed](std::string& text) {
        for (const std::string& w : words)
          if (text == w) return std::string();
        return Got(text, allowed);
      },
      "");
}

CLI::Validator NotEmpty(const std::string& allowed) {
  return CLI::Validator(
      [allowed](std::string& text) { return text.empty() ? Got(text, allowed) : std::string(); }, "");
}

CLI::Option* AddFlag(CLI::App& app, const std::string& name, bool& value, const std::string& help) {
  return app.add_flag(name, value, help)->disable_flag_override();
}

std::string ParseErrorText(const CLI::ParseError& e) {
  const std::string what = e.what();
  const auto is = [&](CLI::ExitCodes code) { return e.get_exit_code() == static_cast<int>(code); };
  if (is(CLI::ExitCodes::ExtrasError)) {
    // CLI11 lists them last first: the option is named, not the value behind it.
    const std::string words = " " + what.substr(what.rfind(": ") + 2);
    const size_t option = words.find(" -");
    const std::string got = option == std::string::npos
                                ? words.substr(1)
                                : words.substr(option + 1, words.find(' ', option + 1) - option - 1);
    return "got " + got + ", which is not expected here; allowed: what --help lists";
  }
  if (is(CLI::ExitCodes::RequiredError))
    return what.find("subcommand") != std::string::npos
               ? "no command given; --help lists those allowed"
               : what.substr(0, what.find(" is required")) + ": missing; allowed: one, as --help says";
  if (is(CLI::ExitCodes::ArgumentMismatch)) {
    if (const size_t flag = what.find(" was given a disallowed"); flag != std::string::npos)
      return "--" + what.substr(0, flag) + ": got a value; allowed: none, it is a flag";
    return what.substr(0, what.find(':')) + (what.find("missing") != std::string::npos
                                                 ? ": got no value; allowed: one"
                                                 : ": got several values; allowed: one");
  }
  return what;
}

}  // namespace cli
