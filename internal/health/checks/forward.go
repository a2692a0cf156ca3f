package checks

import (
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/health"
)

const (
	// forwardAfter is how long no connection for clients may be made; a broker that dies is fenced
	// before, and gets no more requests.
	forwardAfter = 10 * time.Second
	// forwardFresh is how long a failure counts: clients try again within seconds.
	forwardFresh = time.Minute
)

func checkForwarding(f *Facts, n *notes) {
	if f.Cluster == nil || !f.Serving {
		return
	}
	for i := range f.Forwarding {
		x := &f.Forwarding[i]
		n.see(fmt.Sprintf("%d requests passed to broker %d", x.Passed, x.Broker))
		fails := !x.Failing.IsZero() && f.Now.Sub(x.Failing) >= forwardAfter && f.Now.Sub(x.Last) <= forwardFresh
		if !fails || f.Cluster.Of(x.Broker).State != "active" {
			continue
		}
		n.addFinding(health.Finding{Severity: health.Bad, Subject: fmt.Sprintf("requests for broker %d", x.Broker),
			Follows: f.twins(x.Broker, f.Cluster.Self),
			Problem: fmt.Sprintf("this broker cannot connect to broker %d for its clients, which get retriable errors for what that "+
				"broker serves: %s", x.Broker, x.Err),
			Works: "what this broker and others serve, and clients that connect to that broker itself",
			Remedy: fmt.Sprintf("check that this machine can open more connections to the listener for brokers of broker %d, that its process may "+
				"open more files, and that both brokers run the same release (%s)", x.Broker, clusterPage)})
	}
}
