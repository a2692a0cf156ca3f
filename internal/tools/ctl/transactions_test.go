package ctl_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// A scrape shows the open transaction of a partition, what it keeps from readers, and how it ended.
func TestMetricsOfATransaction(t *testing.T) {
	b := chronik.StartTest(t, chronik.Options{Admin: "127.0.0.1:0"})
	scrape := func() string {
		resp, err := http.Get("http://" + b.AdminAddr() + "/metrics")
		must.OK(t, err)
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		must.OK(t, err)
		return string(page)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.TransactionalID("billing"), kgo.AllowAutoTopicCreation())
	must.OK(t, err)
	defer cl.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		must.OK(t, cl.BeginTransaction())
		must.OK(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr())
		open := scrape()
		for _, want := range []string{`chronik_txn_open{partition="0",topic="orders"} 1`,
			`chronik_partition_lso_lag_records{partition="0",topic="orders"} 1`, `chronik_txn_ids{state="Ongoing"} 1`} {
			if !strings.Contains(open, want+"\n") {
				t.Errorf("a scrape lacks %s", want)
			}
		}
		must.OK(t, cl.EndTransaction(context.WithoutCancel(t.Context()), end))
		for strings.Contains(scrape(), "chronik_txn_open{") && t.Context().Err() == nil { // the markers follow the answer
			continue
		}
	}
	ended := scrape()
	for _, want := range []string{`chronik_txn_ended_total{reason="client",result="commit"} 1`,
		`chronik_txn_ended_total{reason="client",result="abort"} 1`, `chronik_lso_age_max_seconds 0`,
		`chronik_txn_max_timeout_seconds 900`} {
		if !strings.Contains(ended, want+"\n") {
			t.Errorf("a scrape lacks %s", want)
		}
	}
}
