// saqiya.hpp and the core in one program, and here in one file: both use the namespace saqiya, and
// neither's types nor symbols are the other's.
#include <type_traits>

#include "core/limiter.h"
#include "core/store.h"
#include "hpp_test.cc"  // NOLINT(bugprone-suspicious-include)

namespace {

class CoreLimiter : public saqiya::api::Limiter {
 public:
  using saqiya::api::Limiter::Limiter;
};

TEST(HppBesideCore, TypesAreDifferent) {
  using CoreStore = decltype(saqiya::open_store({}, {}, nullptr))::element_type;
  static_assert(!std::is_same_v<CoreStore, saqiya::api::Store>);
  static_assert(std::is_abstract_v<CoreStore>);
  saqiya::api::Store store("memory://");
  EXPECT_TRUE(saqiya::api::allowed(CoreLimiter(store, "1/s").check("k")));
}

}  // namespace
