package daemon

import (
	"context"
	"time"

	"github.com/chronik-io/chronik/internal/network"
)

// releaseInterval is the time that appends with acks=all get, while the broker stops, until the
// other replicas have them.
const releaseInterval = 500 * time.Millisecond

// stopClients ends the connections of clients after the requests that were accepted are answered,
// or when ctx ends.
func stopClients(ctx context.Context, r *components, server *network.Server) error {
	r.coordinators.Stop()
	r.park.Close() // fetches that wait for records are answered now
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(releaseInterval)
		defer tick.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-tick.C:
				r.replicas.Release()
			}
		}
	}()
	err := server.Shutdown(ctx)
	close(stopped)
	<-ended
	return err
}
