package daemon

import (
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/daemon/config"
)

// warn logs what a person should know about a configuration that works.
func warn(log *zap.Logger, cfg *config.Config) {
	for _, w := range cfg.Warnings {
		log.Warn(w)
	}
	for _, l := range cfg.Listeners {
		if !config.Loopback(l.Listen) {
			log.Warn("ANYBODY WHO REACHES THIS ADDRESS CAN READ, WRITE AND DELETE EVERYTHING: this listener is bound beyond loopback and there is no authentication; "+
				"keep the network around it private, or bind it to 127.0.0.1", zap.String("listener", l.Name), zap.String("listen", l.Listen))
		}
	}
	for _, l := range cfg.Listeners {
		if l.Advertise != "" && config.Loopback(l.Advertise) && !config.Loopback(l.Listen) {
			log.Info("clients are told to dial "+l.Advertise+", which works on this machine and through a port published on it; "+
				"for clients elsewhere set advertise (CHRONIK_ADVERTISE) to HOST:PORT as they reach this broker", zap.String("listener", l.Name))
		}
	}
	if cfg.AdminListen != "" && !config.Loopback(cfg.AdminListen) {
		log.Warn("the admin port is bound beyond loopback and has no authentication: whoever reaches it can read metrics and profiles and change the log level",
			zap.String("admin.listen", cfg.AdminListen))
	}
}
