# shellcheck shell=bash
# The stages of packaging/test, which sources this file.

# Files under version control, so that build output and other people's checkouts stay out.
tracked() { git ls-files -- "$@"; }

check_cpp_format() {
  local c=(capi/include/saqiya/saqiya.h) cpp
  mapfile -t -O 1 c < <(tracked '*.c')
  mapfile -t cpp < <(tracked '*.h' '*.hpp' '*.cc' | grep -vx capi/include/saqiya/saqiya.h)
  clang-format-14 --dry-run -Werror --style=file:packaging/c.clang-format "${c[@]}" &&
    clang-format-14 --dry-run -Werror "${cpp[@]}"
}

# The library's own sources: tests are held to the compiler's warnings only.
check_clang_tidy() {
  build_preset dev --target saqiya_core || return
  tracked 'core/*.cc' 'capi/src/*.cc' |
    quietly xargs -P "$(nproc)" -n 1 clang-tidy-14 --quiet -p build/dev
}

check_javascript() {
  node/node_modules/.bin/eslint -c node/eslint.config.mjs --max-warnings 0 . &&
    node/node_modules/.bin/prettier --check .
}

check_python() {
  ruff check . && ruff format --check . && mypy
}

stage_lint() {
  step "C++ and C format" check_cpp_format || true
  step "clang-tidy" check_clang_tidy || true
  step "ruff, mypy" check_python || true
  step "eslint, prettier" check_javascript || true
  step "tsc" node/node_modules/.bin/tsc -p tests/node/tsconfig.json || true
}

valkey_server() { valkey=$(packaging/deps/valkey); }

# TSan is for what has threads.
build_sanitizer() {
  case $1 in
    asan) build_preset asan ;;
    tsan) build_preset tsan --target redis_test unit_test capi_test ;;
  esac
}

# The sanitizers' builds take what the tests before them leave idle of the processors: most of those
# wait for something. Whether they failed shows when their turn comes.
build_sanitizers_meanwhile() {
  [[ " ${stages[*]} " == *" sanitizers "* ]] || return 0
  (
    renice -n 19 -p "$BASHPID"
    build_sanitizer asan
    build_sanitizer tsan
  ) >/dev/null 2>&1 &
  meanwhile=$!
}

stage_cpp() {
  step "build (dev)" build_preset dev || return
  build_sanitizers_meanwhile
  step "C++ and C tests" run_ctest dev || true
  step "Valkey, a newer server" valkey_server &&
    SAQIYA_TEST_REDIS_SERVER=$valkey step "Redis tests against Valkey" run_ctest dev -L redis_test
}

stage_python() {
  export PYTHONPATH=$SAQIYA_ROOT/build/dev/python
  if step "build the Python module" build_preset dev --target _saqiya; then
    step "stubtest" python -m mypy.stubtest --mypy-config-file pyproject.toml saqiya._saqiya || true
    step "vectors" run_pytest -n "$(nproc)" tests/vectors || true
    step "the Redis script" run_pytest tests/redis/script || true
    step "Python tests" run_pytest -n "$(nproc)" tests/python || true
  fi
  unset PYTHONPATH
}

stage_node() {
  export SAQIYA_NATIVE_PATH=$SAQIYA_ROOT/build/dev/node/saqiya.node
  step "build the Node addon" build_preset dev --target saqiya_node &&
    step "Node tests" run_node tests/node/*.test.mjs
  unset SAQIYA_NATIVE_PATH
}

stage_sanitizers() {
  export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
  [[ -z ${meanwhile:-} ]] || wait "$meanwhile" || true
  # A cluster replays the same vectors by the same script as a single server: once is enough here.
  step "build (asan)" build_sanitizer asan &&
    step "tests (asan, ubsan)" run_ctest asan -E 'Vectors.*Cluster'
  # Vectors are replayed by one thread.
  step "build (tsan)" build_sanitizer tsan &&
    step "tests (tsan)" run_ctest tsan -L '^(redis|unit|capi)_test$' -E 'Vectors|RedisUsers'
}

stage_packaging() {
  step "packages" run_pytest tests/packaging
}
