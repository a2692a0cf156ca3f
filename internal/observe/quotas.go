package observe

import (
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/security/quota"
)

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
