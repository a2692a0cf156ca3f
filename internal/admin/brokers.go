package admin

import (
	"net"
	"net/url"
	"slices"
	"strconv"

	"github.com/chronik-io/chronik/internal/view"
)

// brokers serves GET /v1/brokers.
func brokers(v *View, q url.Values) (any, error) {
	if err := known(q); err != nil {
		return nil, err
	}
	return view.Brokers{Broker: v.Node, List: v.brokers()}, nil
}

// brokers returns the registered brokers by their ids, as this broker's metadata describe them.
func (v *View) brokers() []view.Broker {
	img := v.Image()
	at := map[int32]int{}
	list := []view.Broker{}
	for i, b := range img.Brokers() {
		state, _ := img.Liveness(b.ID)
		at[b.ID] = i
		one := view.Broker{ID: b.ID, State: state.String()}
		if len(b.Listeners) > 0 {
			one.Address = net.JoinHostPort(b.Listeners[0].Host, strconv.Itoa(int(b.Listeners[0].Port)))
		}
		list = append(list, one)
	}
	for t := range img.Topics() {
		for _, p := range t.Partitions.All() {
			if i, ok := at[p.Leader]; ok {
				list[i].Leads++
			}
			for _, id := range p.Replicas {
				i, ok := at[id]
				if !ok {
					continue
				}
				list[i].Replicas++
				if !slices.Contains(p.ISR, id) && !slices.Contains(p.Adding, id) {
					list[i].OutOfSync++
				}
			}
		}
	}
	return list
}

// rights serves GET /v1/rights.
func rights(v *View, q url.Values) (any, error) {
	if err := known(q); err != nil {
		return nil, err
	}
	return v.Rights, nil
}
