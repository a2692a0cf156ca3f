package guard

import (
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
)

// Reread takes what read, the configuration of now, says about the principals of other brokers, and
// reports whether that has changed. The other settings need a restart, so it logs which of them
// differ from cfg, with which the broker runs. A configuration that could not start a broker
// changes nothing.
func (c *Certificates) Reread(cfg *config.Config, read func() (*config.Config, error), log *zap.Logger) bool {
	next, err := read()
	if err != nil {
		log.Error("the configuration was not read again, and a restart would fail; correct it and send SIGHUP: cluster.principals stay as "+
			"they are until then", zap.Strings("errors", strings.Split(err.Error(), "\n")))
		return false
	}
	others := slices.DeleteFunc(cfg.Changed(next), func(name string) bool { return name == config.KeyClusterPrincipal })
	if len(others) > 0 {
		log.Warn("changed settings are effective after a restart", zap.Strings("settings", others))
	}
	principals := next.Security.ClusterPrincipals
	before := c.brokers.Swap(&principals)
	if slices.Equal(*before, principals) {
		return false
	}
	log.Info("certificates of other brokers are checked against the changed cluster.principals",
		zap.Strings("before", *before), zap.Strings("now", principals))
	return true
}
