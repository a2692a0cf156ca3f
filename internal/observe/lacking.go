package observe

import (
	"errors"

	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
)

// Lacking returns the parts of the broker that do not follow the metadata.
func Lacking(a *metadata.Applier) (list []checks.Lacking) {
	for _, l := range a.Lacking() {
		list = append(list, checks.Lacking{Part: l.Part, Since: l.Since, Error: l.Err.Error(),
			Replaced: errors.Is(l.Err, replica.ErrReplaced)})
	}
	return list
}
