// A shared library needs a source of its own; libopsnn's code comes from the modules.
namespace opsnn {
namespace {
[[maybe_unused]] constexpr char kLibrary[] = "opsnn";
}  // namespace
}  // namespace opsnn
