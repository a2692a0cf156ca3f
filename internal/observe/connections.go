package observe

import (
	"time"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/view"
)

// Connections returns the open connections of clients, by id.
func Connections(s *network.Server) []view.Connection {
	now, list := time.Now(), []view.Connection{}
	for _, c := range s.Connections() {
		x := view.Connection{
			ID: c.ID, Listener: c.Listener, ClientID: c.ClientID, Software: c.Software.Name, Version: c.Software.Version,
			Principal: c.Session.Principal, Opened: c.Opened.UTC(), InFlight: c.InFlight,
			ThrottledMs: max(c.ThrottledUntil.Sub(now).Milliseconds(), 0),
			Requests:    c.Requests, BytesIn: c.BytesIn, BytesOut: c.BytesOut, RecordsIn: c.RecordsIn,
		}
		if c.Peer.IsValid() {
			x.Address = c.Peer.String()
		}
		if c.Requests > 0 {
			at := c.LastRequest.UTC()
			x.LastRequest = &at
		}
		list = append(list, x)
	}
	return list
}

// Quotas returns the source of the metrics of quotas.
func Quotas(k *quota.Keeper) func(most int) []metrics.Quota {
	return func(most int) []metrics.Quota {
		var list []metrics.Quota
		for _, x := range k.Most(most) {
			list = append(list, metrics.Quota{Entity: x.Owner.String(), Limit: x.Limit.String(), Waited: x.Waited, Debt: x.Debt})
		}
		return list
	}
}
