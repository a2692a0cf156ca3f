package daemon

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/configdef"
)

// checkCluster rejects settings of a cluster that do not go together. all are the broker's configs.
func checkCluster(cfg *config.Config, all map[string]string) error {
	b, err := registry(cfg.Durability).ResolveBroker(all)
	if err != nil {
		return err
	}
	c := &b.Cluster
	switch {
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
		host, _, err := net.SplitHostPort(l.Listen)
		if err != nil {
			return err
		}
		if ip, err := netip.ParseAddr(host); l.Advertise == "" && (host == "" || err == nil && ip.IsUnspecified()) {
			return fmt.Errorf("listener %s listens on %s and advertises no address, and other brokers cannot guess one; "+
				"set advertise (--advertise) to HOST:PORT under which this machine can be reached", l.Name, l.Listen)
		}
	}
	return nil
}
