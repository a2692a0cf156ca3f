package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// MaxQuotas is how many owners of quotas have metrics.
const MaxQuotas = 100

// Quota describes an owner of a quota whose clients had to wait, for one scrape.
type Quota struct {
	Entity, Limit string
	Waited        time.Duration // for how long clients were asked to wait, all together
	Debt          time.Duration // for how long they have to wait now
}

// RegisterQuotas registers the owners of quotas whose clients had to wait. Every scrape calls
// source with the most that it may return: those that waited longest.
func RegisterQuotas(reg prometheus.Registerer, source func(most int) []Quota) error {
	var s scraped
	waited := s.counter(nameQuotaWaited, "Seconds that the clients of a quota had to wait. The 100 that waited longest.", "entity", "limit")
	debt := s.gauge(nameQuotaDebt, "Seconds until the clients of a quota are within it again.", "entity", "limit")
	s.read = func(send sendFunc) {
		for _, x := range source(MaxQuotas) {
			entity := strings.ToValidUTF8(x.Entity, "\uFFFD") // a client id may have any bytes
			send(waited, x.Waited.Seconds(), entity, x.Limit)
			send(debt, x.Debt.Seconds(), entity, x.Limit)
		}
	}
	return reg.Register(&s)
}
