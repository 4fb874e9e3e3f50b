#include "tests/redis/certificates.h"

#include "tests/redis/launch.h"

namespace saqiya::testing {
namespace {

class Maker {
 public:
  const Certificates& made() const { return made_; }

  Maker() {
    made_.ca = authority("ca").certificate;
    made_.other_ca = authority("other-ca").certificate;
    made_.server = signed_by_ca("server", "DNS:localhost,IP:127.0.0.1");
    made_.client = signed_by_ca("client", "DNS:client.example");
    made_.elsewhere = signed_by_ca("elsewhere", "DNS:another.example");
  }

 private:
  KeyPair files(const std::string& name) const {
    return {directory_.path() + "/" + name + ".crt", directory_.path() + "/" + name + ".key"};
  }

  KeyPair authority(const std::string& name) const {
    KeyPair pair = files(name);
    run({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=saqiya test " + name, "-keyout", pair.key, "-out",
         pair.certificate});
    return pair;
  }

  KeyPair signed_by_ca(const std::string& name, const std::string& names) const {
    KeyPair pair = files(name);
    const KeyPair ca = files("ca");
    const std::string request = directory_.path() + "/" + name + ".csr";
    run({"openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-subj", "/CN=" + name, "-keyout", pair.key, "-out", request});
    const std::string extensions =
        directory_.write(name + ".ext", "subjectAltName=" + names +
                                            "\nbasicConstraints=CA:FALSE\n"
                                            "extendedKeyUsage=serverAuth,clientAuth\n");
    run({"openssl", "x509", "-req", "-in", request, "-CA", ca.certificate, "-CAkey", ca.key,
         "-CAcreateserial", "-days", "2", "-extfile", extensions, "-out", pair.certificate});
    return pair;
  }

  TemporaryDirectory directory_;
  Certificates made_;
};

}  // namespace

const Certificates& certificates() {
  static const Maker maker;
  return maker.made();
}

}  // namespace saqiya::testing
