// Native objects that JavaScript values hold: counted references, dropped by finalizers, so that
// the collector may take the values in any order. One thread only, hence plain counts.
#pragma once

#include <node_api.h>

#include "arguments.h"
#include "environment.h"

namespace saqiya::node {

class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  void ref() { ++count_; }
  void unref() {
    if (--count_ == 0) delete this;
  }

 protected:
  virtual ~Counted() = default;

 private:
  int count_ = 0;
};

// Keeps an object while the values that will hold it are made: each of these steps fails in a
// worker that is being terminated, and the object must outlive the last one.
class Held {
 public:
  explicit Held(Counted* object) : object_(object) { object_->ref(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { object_->unref(); }

 private:
  Counted* object_;
};

inline void release_counted(napi_env, void* data, void*) { static_cast<Counted*>(data)->unref(); }

// A function whose data pointer is the object; it keeps the object alive.
inline void set_method(napi_env env, napi_value target, const char* name, napi_callback callback,
                       Counted* object) {
  napi_value function = make_function(env, name, callback, object);
  object->ref();
  if (napi_add_finalizer(env, function, object, release_counted, nullptr, nullptr) != napi_ok) {
    object->unref();
    return;
  }
  set_property(env, target, name, function);
}

// T has a static const napi_type_tag kTag; other values are refused with a TypeError.
template <typename T>
napi_value wrap_external(napi_env env, T* object) {
  napi_value holder = nullptr;
  if (napi_create_object(env, &holder) != napi_ok) return nullptr;
  Counted* counted = object;
  counted->ref();
  if (napi_wrap(env, holder, counted, release_counted, nullptr, nullptr) != napi_ok) {
    counted->unref();
    return nullptr;
  }
  napi_type_tag_object(env, holder, &T::kTag);
  return holder;
}

template <typename T>
T* unwrap_external(Environment& environment, napi_value value) {
  napi_env env = environment.env();
  bool matches = false;
  void* data = nullptr;
  if (napi_check_object_type_tag(env, value, &T::kTag, &matches) != napi_ok || !matches ||
      napi_unwrap(env, value, &data) != napi_ok) {
    environment.raise("type", "not a handle of the right kind");
    return nullptr;
  }
  return static_cast<T*>(static_cast<Counted*>(data));
}

}  // namespace saqiya::node
