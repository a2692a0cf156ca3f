package format

import (
	"context"

	"github.com/chronik-io/chronik/internal/objects"
)

// A probe is a pack without pieces. The broker that leads the metadata puts one, and the others
// read it before they upload. So a broker with another store, or with a directory on which nothing
// is mounted, finds out before it has put anything. A collection deletes it, as no snapshot names
// it.

// PutProbe puts a probe, and returns its nonce. s has the objects of the cluster below prefix.
func PutProbe(ctx context.Context, s objects.Store, prefix string) (objects.Nonce, error) {
	nonce := objects.NewNonce()
	sealed, _ := new(Pack).Seal(nonce)
	name := Name{Kind: objects.Pack, Nonce: nonce}
	return nonce, objects.Write(ctx, s, prefix+name.String(), objects.Pack, sealed)
}

// ReadProbe reads a probe. The error matches objects.ErrNotFound if it is not in this store.
func ReadProbe(ctx context.Context, s objects.Store, prefix string, nonce objects.Nonce) error {
	name := Name{Kind: objects.Pack, Nonce: nonce}
	_, _, err := objects.Read(ctx, s, prefix+name.String(), objects.Pack, packVersion, 1<<10)
	return err
}
