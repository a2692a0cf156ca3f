package audit

import "context"

type clientKey struct{}

// With returns a context whose changes are those of a client.
func With(ctx context.Context, c Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// From returns the client of With; false if the broker acts on its own.
func From(ctx context.Context) (Client, bool) {
	c, ok := ctx.Value(clientKey{}).(Client)
	return c, ok
}
