package resolve

import (
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/config"
)

// A cluster whose listener for brokers is open to all, or closed to brokers, is refused.
func TestTheListenerOfBrokersIsSecured(t *testing.T) {
	secret := "cluster.secret.file=/secret"
	for name, c := range map[string]struct {
		listen string
		set    []string
		want   string // "" is accepted
	}{
		"no security": {listen: "192.0.2.1:0"},
		"rights without secret": {"192.0.2.1:0", []string{"authorization=acl", "super-users=User:admin"},
			"cluster.secret.file is not set"},
		"rights with a secret": {"192.0.2.1:0", []string{"authorization=acl", "super-users=User:admin", secret}, ""},
		"rights on this machine": {"127.0.0.1:0", []string{"authorization=acl", "super-users=User:admin"},
			"cluster.secret.file is not set"},
		"logins without TLS": {"127.0.0.1:0", []string{"sasl=SCRAM-SHA-512", secret}, "has sasl and no TLS"},
		"TLS without certificates of brokers": {"127.0.0.1:0", []string{"security=tls", "tls.certificate=c", "tls.key=k", secret},
			"asks for no certificates"},
		"TLS without secret": {"127.0.0.1:0", []string{"security=tls", "tls.certificate=c", "tls.key=k", "tls.client-ca=a",
			"client.certificates=request"}, "cluster.secret.file is not set"},
		"TLS with everything": {"127.0.0.1:0", []string{"security=tls", "tls.certificate=c", "tls.key=k", "tls.client-ca=a",
			"client.certificates=request", secret}, ""},
	} {
		_, err := Load(config.Input{
			Set: append(c.set, "cluster.name=test", "node.id=1", "cluster.seeds=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"),
			Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: c.listen, config.KeyAdvertise: "broker:9092",
				config.KeyAdminListen: "off"},
		})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
