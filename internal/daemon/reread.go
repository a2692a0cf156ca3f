package daemon

import (
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
)

// reread takes what the configuration now says about the principals of other brokers, and reports
// whether that has changed. The other settings need a restart, so it logs which of them differ from
// those that the broker runs with. A configuration that could not start a broker changes nothing.
func (b *Broker) reread(read func() (*config.Config, error)) bool {
	log := b.log.Named("configuration")
	next, err := read()
	if err != nil {
		log.Error("the configuration was not read again, and a restart would fail; correct it and send SIGHUP: cluster.principals stay as "+
			"they are until then", zap.Strings("errors", strings.Split(err.Error(), "\n")))
		return false
	}
	others := slices.DeleteFunc(b.cfg.Changed(next), func(name string) bool { return name == config.KeyClusterPrincipal })
	if len(others) > 0 {
		log.Warn("changed settings are effective after a restart", zap.Strings("settings", others))
	}
	principals := next.Security.ClusterPrincipals
	before := b.certs.brokers.Swap(&principals)
	if slices.Equal(*before, principals) {
		return false
	}
	log.Info("certificates of other brokers are checked against the changed cluster.principals",
		zap.Strings("before", *before), zap.Strings("now", principals))
	return true
}
