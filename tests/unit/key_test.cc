// Key names are a contract with other processes and versions: golden strings, and no two subjects
// with one name (C170).
#include "core/key.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace saqiya {
namespace {

std::string subject(std::string_view text, bool hash_all = false, std::string_view secret = {}) {
  std::string out;
  append_subject(text, hash_all, secret, &out);
  return out;
}

std::string part(std::string_view text) {
  std::string out;
  append_key_part(text, &out);
  return out;
}

TEST(Key, GoldenSubjects) {
  using std::string_view_literals::operator""sv;
  const std::pair<std::string_view, std::string_view> golden[] = {
      {"user:42", "user%3A42"},
      {"10.0.0.1", "10.0.0.1"},
      {"2001:db8::1", "2001%3Adb8%3A%3A1"},
      {"", "%"},
      {"%", "%25"},
      {"%25", "%2525"},
      {"{a}", "%7Ba%7D"},
      {"a\0b"sv, "a%00b"},
      {"line\r\n", "line%0D%0A"},
      {"\x1f\x20\x7f\xff", "%1F\x20\x7f\xff"},
      {"\xc3\xa9", "\xc3\xa9"},
      {"#", "%23"},
      {"#:", "%23%3A"},
      {"##", "%23#"},
      {"a#", "a#"},
  };
  for (const auto& [text, name] : golden) EXPECT_EQ(subject(text), name);
}

TEST(Key, LongSubjectsBecomeADigest) {
  EXPECT_EQ(subject(std::string(64, 'a')), std::string(64, 'a'));
  EXPECT_EQ(subject(std::string(65, 'a')), "#635361c48bb9eab14198e76ea8ab7f1a");
  EXPECT_EQ(subject(std::string(65, 'a'), false, "pepper"), "#2fa1dc8c31e367b2d748c924b6ab447d");
  EXPECT_EQ(subject(std::string(65536, 'a')).size(), 33U);
  EXPECT_NE(subject(std::string(65536, 'a')), subject(std::string(65535, 'a')));
}

TEST(Key, EverySubjectMayBeHashed) {
  EXPECT_EQ(subject("user:42", true), "#ea3fd43be1e57d62e163dae19fc740bd");
  EXPECT_EQ(subject("user:42", true, "pepper"), "#9382bcb6788c0db969c5f2f300db090f");
  EXPECT_EQ(subject("", true), "#e3b0c44298fc1c149afbf4c8996fb924");
  EXPECT_EQ(subject("user:42", false, "pepper"), "user%3A42");  // the secret is for digests alone
}

TEST(Key, PartsOfPolicies) {
  EXPECT_EQ(part("login"), "login");
  EXPECT_EQ(part("a:b"), "a%3Ab");
  EXPECT_EQ(part(""), "%");
  EXPECT_EQ(policy_identity("login", "5/s burst 20"), "login");
  EXPECT_EQ(policy_identity("per minute {x}:b", ""), "per minute %7Bx%7D%3Ab");
  EXPECT_EQ(policy_identity("", "5/s burst 20"), "6dbc4x");
  EXPECT_EQ(policy_identity("", "1/600ms burst 100"), "7xerrm");
}

TEST(Key, DifferentTuplesNeverShareAName) {  // C170
  const auto name = [](std::string_view who, std::string_view policy) {
    return "sq:{" + subject(who) + "}:" + policy_identity(policy, "");
  };
  EXPECT_NE(name("a", "bc"), name("ab", "c"));
  EXPECT_NE(name("a:b", "c"), name("a", "b:c"));
  EXPECT_NE(name("a}:b", "c"), name("a", "b}:c"));

  // Texts of the few bytes that matter, all of up to four and random longer ones.
  const std::string alphabet("%{}:#|2A\0\x1f\xff", 11);
  std::map<std::string, std::pair<std::string, std::string>> seen;
  const auto expect_new = [&](const std::string& who, const std::string& policy) {
    const auto [it, fresh] = seen.try_emplace(name(who, policy), who, policy);
    if (!fresh) {
      EXPECT_EQ(it->second, std::make_pair(who, policy)) << it->first;
    }
  };
  std::vector<std::string> texts = {""};
  for (std::size_t begin = 0, length = 0; length < 4; ++length) {
    const std::size_t end = texts.size();
    for (; begin < end; ++begin) {
      for (const char c : alphabet) texts.push_back(texts[begin] + c);
    }
  }
  for (const std::string& text : texts) expect_new(text, "p");
  std::mt19937_64 random(170);
  for (int i = 0; i < 50'000; ++i) {
    std::string parts[2];
    for (std::string& text : parts) {
      for (auto length = random() % 6; length > 0; --length) {
        text.push_back(alphabet[random() % alphabet.size()]);
      }
    }
    if (parts[1].empty()) parts[1] = "p";  // an empty name stands for "unnamed"
    expect_new(parts[0], parts[1]);
  }
}

TEST(Key, AShortSubjectNeverPassesForADigest) {
  const std::string digest = subject(std::string(65, 'a'));
  EXPECT_NE(subject(digest), digest);
}

}  // namespace
}  // namespace saqiya
