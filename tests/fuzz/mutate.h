// The driver of a fuzz target when it is run as an ordinary test: every file of the corpus, then
// mutations of them from a fixed seed. With libFuzzer its own driver takes this one's place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace saqiya::test {

class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, std::uint64_t seed)
      : corpus_(std::move(corpus)), random_(seed) {}

  // An input of the corpus with some bytes changed, put in, taken out, doubled or crossed over.
  std::string next() {
    std::string text = pick();
    for (auto edits = 1 + random_() % 6; edits > 0; --edits) edit(&text);
    if (text.size() > 2'000) text.resize(2'000);
    return text;
  }

 private:
  const std::string& pick() { return corpus_[random_() % corpus_.size()]; }
  std::size_t place(const std::string& text) { return random_() % (text.size() + 1); }

  void edit(std::string* text) {
    static constexpr char kCharacters[] =
        "0123456789/_.:;,|@[]%?#{}- \t\n\0\xff"
        "sSmhdwu";
    static const std::string kTelling(kCharacters, sizeof kCharacters - 1);
    const std::size_t at = place(*text);
    switch (random_() % 7) {
      case 0:
        text->insert(at, 1, kTelling[random_() % kTelling.size()]);
        break;
      case 1:
        text->insert(at, 1, static_cast<char>(random_()));
        break;
      case 2:
        text->erase(at, 1 + random_() % 4);
        break;
      case 3:
        if (at < text->size()) (*text)[at] = kTelling[random_() % kTelling.size()];
        break;
      case 4:
        text->insert(at, text->substr(place(*text), random_() % 20));
        break;
      case 5:
        text->insert(at, pick());
        break;
      default:
        text->insert(at, std::string(random_() % 40, kTelling[random_() % 10]));
        break;
    }
  }

  const std::vector<std::string> corpus_;
  std::mt19937_64 random_;
};

}  // namespace saqiya::test
