package admin

import (
	"net/url"

	"github.com/chronik-io/chronik/internal/view"
)

// brokers serves GET /v1/brokers.
func brokers(v *View, q url.Values) (any, error) {
	if err := known(q); err != nil {
		return nil, err
	}
	c := v.Cluster()
	return view.Brokers{Broker: v.Node, Leaderless: c.WithoutLeader(), Moving: c.Moving, List: c.Brokers}, nil
}

// profiles serves GET /v1/profiles.
func profiles(v *View, q url.Values) (any, error) {
	if err := known(q); err != nil {
		return nil, err
	}
	return v.Profiles(), nil
}

// rights serves GET /v1/rights.
func rights(v *View, q url.Values) (any, error) {
	if err := known(q); err != nil {
		return nil, err
	}
	return v.Rights, nil
}
