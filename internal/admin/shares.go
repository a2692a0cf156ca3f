package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// shares serves GET /v1/shares. It waits for the leaders of the topic, for up to groupTime.
func shares(v *View, q url.Values) (any, error) {
	if err := known(q, "group", "topic"); err != nil {
		return nil, err
	}
	group, topic := q.Get("group"), q.Get("topic")
	if group == "" || topic == "" {
		return nil, BadRequest("the parameters group and topic are required")
	}
	ctx, cancel := context.WithTimeout(context.Background(), groupTime)
	defer cancel()
	all, exists := v.Groups.LedShares(ctx, group, topic)
	if !exists {
		return nil, &apiError{http.StatusNotFound, "there is no topic " + strconv.Quote(topic)}
	}
	return &all, nil
}
