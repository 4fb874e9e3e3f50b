// The memory store against the reference model (tests/support/model_stream.py), which was written
// without looking at the steps and uses integers of any size: random requests of one algorithm,
// each with the answer it must get.
//
//     model_steps ALGORITHM STEPS
//
// The steps are shared out to several seeds, since the seed chooses the rule. Run in the folder
// `tests`, which python3 takes the model from.
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/group.h"
#include "core/limiter.h"
#include "core/rate.h"
#include "core/store.h"

namespace saqiya {
namespace {

constexpr int kSeeds = 5;

struct Close {
  void operator()(FILE* file) const { pclose(file); }
};
using Pipe = std::unique_ptr<FILE, Close>;

enum : int { kCheckLine = 0, kPeekLine = 1, kRefundLine = 2, kResetLine = 3, kSettleLine = 5 };

Op op_of(std::int64_t code) {
  switch (code) {
    case kCheckLine:
      return Op::kCheck;
    case kPeekLine:
      return Op::kPeek;
    case kRefundLine:
      return Op::kRefund;
    case kResetLine:
      return Op::kReset;
    case kSettleLine:
      return Op::kSettle;
    default:
      return Op::kRenew;
  }
}

// The value of "text" in the first line; policies have no characters that JSON escapes.
std::string text_of(const std::string& json) {
  const std::string before = "\"text\": \"";
  const std::size_t from = json.find(before);
  if (from == std::string::npos) return {};
  const std::size_t start = from + before.size();
  return json.substr(start, json.find('"', start) - start);
}

bool play(const std::string& algorithm, int seed, std::int64_t steps) {
  const std::string command = "python3 -m support.model_stream --algorithm " + algorithm +
                              " --seed " + std::to_string(seed) + " --steps " +
                              std::to_string(steps);
  const Pipe stream(popen(command.c_str(), "r"));
  std::array<char, 4096> line;
  if (stream == nullptr || std::fgets(line.data(), line.size(), stream.get()) == nullptr) {
    std::printf("no output of %s\n", command.c_str());
    return false;
  }
  StoreOptions options;
  const auto clock = std::make_shared<ManualClock>(0);
  options.clock = clock;
  OpenError open_error;
  const std::shared_ptr<Store> store = open_store("memory://", options, &open_error);
  Policy policy;
  PolicyError error;
  const std::string text = text_of(line.data());
  if (!parse_policy(text, &policy, &error)) {
    std::printf("%s: %s\n", text.c_str(), error.message.c_str());
    return false;
  }
  const auto limiter = std::make_shared<Limiter>(store, policy, "m", 0);

  std::vector<Ticket> tickets;
  std::int64_t count = 0;
  std::array<std::int64_t, 4> outcomes{};
  while (std::fgets(line.data(), line.size(), stream.get()) != nullptr) {
    std::array<std::int64_t, 10> v{};
    char* at = line.data();
    for (std::int64_t& number : v) number = std::strtoll(at, &at, 10);
    clock->set(v[1]);
    const std::string key = std::to_string(v[2]);
    Request request;
    request.op = op_of(v[0]);
    request.limiter = limiter.get();
    request.key = key;
    request.cost = v[3];
    Ticket ticket;
    if (v[0] == kCheckLine) {
      request.max_wait = v[4];
    } else if (v[0] != kPeekLine && v[0] != kResetLine) {
      ticket = tickets[static_cast<std::size_t>(v[4])];
      request.tickets = {&ticket, 1};
    }
    Answer answer;
    store->execute(request, &answer);
    const Decision& d = answer.decision;
    const Micros retry_after = d.outcome == Outcome::kNever ? -1 : d.retry_after;
    if (static_cast<std::int64_t>(d.outcome) != v[5] || d.remaining != v[6] ||
        retry_after != v[7] || d.reset_after != v[8] || d.delay != v[9]) {
      std::printf("%s, line %" PRId64 ": wanted %soutcome %d remaining %" PRId64
                  " retry_after %" PRId64 " reset_after %" PRId64 " delay %" PRId64 "\n",
                  command.c_str(), count, line.data(), static_cast<int>(d.outcome), d.remaining,
                  retry_after, d.reset_after, d.delay);
      return false;
    }
    tickets.push_back(answer.ticket);
    ++outcomes[static_cast<std::size_t>(d.outcome)];
    ++count;
  }
  std::printf("%s: %" PRId64 " steps, %" PRId64 " allowed, %" PRId64 " denied, %" PRId64 " never\n",
              text.c_str(), count, outcomes[1], outcomes[2], outcomes[3]);
  // A stream that breaks off, or asks nothing of interest, shows nothing.
  return count == steps && outcomes[1] > steps / 20 && outcomes[2] > 0;
}

}  // namespace
}  // namespace saqiya

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::int64_t steps = std::atoll(argv[2]) / saqiya::kSeeds;
  for (int seed = 0; seed < saqiya::kSeeds; ++seed) {
    if (!saqiya::play(argv[1], seed, steps)) return 1;
  }
  return 0;
}
