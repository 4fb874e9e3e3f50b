// main() of a fuzz target built without libFuzzer:  TARGET FOLDER [MUTATIONS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/mutate.h"

namespace {

void run(const std::string& text) {
  // An exact allocation, so that AddressSanitizer sees a read past the end.
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  bytes.shrink_to_fit();
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  std::vector<std::string> corpus;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    run(corpus.back());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no corpus in %s\n", argv[1]);
    return 1;
  }
  const long mutations = argc > 2 ? std::atol(argv[2]) : 100'000;
  saqiya::test::Mutator mutator(corpus, 20261130);
  for (long i = 0; i < mutations; ++i) run(mutator.next());
  std::printf("%zu files, %ld mutations\n", corpus.size(), mutations);
  return 0;
}
