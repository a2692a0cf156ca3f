package guard

import (
	"context"
	"iter"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// followQuotas makes quotas follow an applier that has not started: an Image is shown when its
// quotas apply.
func followQuotas(k *quota.Keeper, applier *metadata.Applier) {
	applier.Subscribe("quotas", func(_ context.Context, _, next *metadata.Image, d *metadata.Delta) error {
		if d.Quotas {
			k.Set(quota.Compile(quotasOf(next)))
		}
		return nil
	})
}

// quotasOf returns the quotas of an Image.
func quotasOf(img *metadata.Image) iter.Seq[quota.Quota] {
	return func(yield func(quota.Quota) bool) {
		for stored := range img.Quotas() {
			q := quota.Quota{Entity: stored.Entity}
			for name, v := range stored.Limits {
				if l, ok := quota.ParseLimit(name); ok { // others can't be stored
					q.Limits[l] = v
				}
			}
			if !yield(q) {
				return
			}
		}
	}
}
