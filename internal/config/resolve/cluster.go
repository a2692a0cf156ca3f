package resolve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/configdef"
)

// checkCluster rejects settings of a cluster that do not go together. all are the broker's configs.
func checkCluster(cfg *config.Config, all map[string]string) error {
	b, err := Registry(cfg.Durability).ResolveBroker(all)
	if err != nil {
		return err
	}
	c := &b.Cluster
	switch {
	case c.Name == "" && len(c.Seeds) == 0 && len(b.LogDirs) == 0:
		return errors.New("log.dirs is none, which makes a broker of a cluster only vote, and cluster.name is not set; " +
			"set cluster.name and cluster.seeds, or remove log.dirs")
	case c.Name == "" && len(c.Seeds) == 0:
		return nil
	case c.Name == "":
		return errors.New("cluster.seeds is set and cluster.name is not; set cluster.name to the same name on all brokers, " +
			"or remove cluster.seeds for a broker without a cluster")
	case len(c.Seeds) == 0:
		return errors.New("cluster.name is set and cluster.seeds is not; set cluster.seeds to the addresses of the brokers that form the cluster, " +
			"for example a:9092,b:9092,c:9092")
	case all["node.id"] == "" && all["broker.id"] == "":
		return errors.New("cluster.name is set and node.id is not; set node.id to a different number on each broker of the cluster")
	case c.Session < 3*c.Heartbeat:
		return errors.New("broker.session.timeout.ms is less than three times broker.heartbeat.interval.ms, so a single late heartbeat " +
			"would fence the broker; raise broker.session.timeout.ms")
	}
	return errors.Join(checkInterListener(cfg, c), checkReachable(cfg), checkPeers(cfg, &b))
}

func checkInterListener(cfg *config.Config, c *configdef.Cluster) error {
	var names []string
	for _, l := range cfg.Listeners {
		names = append(names, l.Name)
	}
	if c.InterListener == "" || slices.Contains(names, c.InterListener) {
		return nil
	}
	return fmt.Errorf("inter.broker.listener.name is %q, and there is no such listener; use one of %s",
		c.InterListener, strings.Join(names, ", "))
}

// checkReachable rejects listeners whose address other brokers, and clients that other brokers send
// here, could not dial.
func checkReachable(cfg *config.Config) error {
	for _, l := range cfg.Listeners {
		if host, _ := config.HostPort(l.Listen); !l.Forward && l.Advertise == "" && config.Everywhere(host) {
			return fmt.Errorf("listener %s listens on %s and advertises no address, and other brokers cannot guess one; "+
				"set advertise (--advertise) to HOST:PORT under which this machine can be reached", l.Name, l.Listen)
		}
	}
	return nil
}

// checkPeers rejects settings with which brokers could not connect, or anybody could as one.
func checkPeers(cfg *config.Config, conf *configdef.Broker) error {
	name := InterListener(cfg, conf)
	i := slices.IndexFunc(cfg.Listeners, func(l config.Listener) bool { return l.Name == name })
	if i < 0 {
		return nil // checkInterListener reports it
	}
	l := &cfg.Listeners[i]
	secured := cfg.Security.ACL || slices.ContainsFunc(cfg.Listeners, func(l config.Listener) bool {
		return l.TLS != nil || len(l.SASL) > 0
	})
	switch {
	case l.Forward:
		return fmt.Errorf("brokers connect through listener %s, which has route: forward and so one address for all of them; "+
			"add a listener for brokers, and set inter.broker.listener.name to it", name)
	case l.TLS == nil && len(l.SASL) > 0:
		return fmt.Errorf("listener %s has sasl and no TLS, and brokers connect through it, which show certificates instead of logging in; "+
			"set security: tls for it, or inter.broker.listener.name to another listener", name)
	case l.TLS != nil && (l.TLS.ClientCA == "" || l.ClientCertificates == config.CertificatesNone):
		return fmt.Errorf("brokers connect through listener %s, which has TLS and asks for no certificates; set %s, and "+
			"client-certificates: require (or request, if its clients have none)", name, config.KeyTLSClientCA)
	case conf.Cluster.SecretFile == "" && secured: // also on loopback: a user of the machine is no broker
		return errors.New("cluster.secret.file is not set, and this broker has TLS, logins or rights: every program that reaches the " +
			"listener of brokers could claim to be a broker and do everything; set it to a file with 32 random characters, the same on all brokers")
	}
	return nil
}

// InterListener returns the name of the listener that other brokers connect to.
func InterListener(cfg *config.Config, conf *configdef.Broker) string {
	if conf.Cluster.InterListener != "" {
		return conf.Cluster.InterListener
	}
	return cfg.Listeners[0].Name
}
