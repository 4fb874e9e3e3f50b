// What a descriptor refers to. A child of a fork that closed everything, as daemons do, may have
// other files under the numbers of its parent's; those are not ours to close.
#pragma once

#include <sys/stat.h>

namespace saqiya::redis {

class FileId {
 public:
  FileId() = default;
  explicit FileId(int fd) : known_(fstat(fd, &stat_) == 0) {}

  bool is_still(int fd) const {
    struct stat now {};
    return known_ && fstat(fd, &now) == 0 && now.st_dev == stat_.st_dev &&
           now.st_ino == stat_.st_ino;
  }

 private:
  struct stat stat_ {};
  bool known_ = false;
};

}  // namespace saqiya::redis
