package admin

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counted is a collector that says how many scrapes read it at the same time.
type counted struct {
	desc      *prometheus.Desc
	now, most atomic.Int64
}

func (c *counted) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

func (c *counted) Collect(ch chan<- prometheus.Metric) {
	if n := c.now.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	time.Sleep(time.Second) // in the bubble's time
	c.now.Add(-1)
	ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, 1)
}

// Scrapes that come together are made one after the other, and all are answered: together they
// would take their memory together.
func TestScrapesAreMadeInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := options()
		c := &counted{desc: prometheus.NewDesc("counted", "Read by scrapes.", nil, nil)}
		o.Registry.MustRegister(c)
		h := Handler(o)
		var all sync.WaitGroup
		for range maxScrapes / 2 { // as many as an address may have
			all.Go(func() {
				if code := from(h, "10.0.0.1", "/metrics", ""); code != http.StatusOK {
					t.Errorf("a scrape is answered with %d", code)
				}
			})
		}
		all.Wait()
		if n := c.most.Load(); n != 1 {
			t.Errorf("%d scrapes are made at once", n)
		}
	})
}

// A response takes its size of memory and at most a part, and arrives whole.
func TestAResponseIsBufferedInParts(t *testing.T) {
	var k buffered
	var want bytes.Buffer
	for i := range 3000 {
		piece := bytes.Repeat([]byte{byte(i)}, i%700)
		if i == 2000 {
			piece = make([]byte, 3*mostPart)
		}
		want.Write(piece)
		if n, err := k.Write(piece); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := bytes.Join(k.parts, nil); !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d bytes for %d", len(got), want.Len())
	}
	if k.size > int64(want.Len())+mostPart {
		t.Errorf("%d bytes of memory for %d", k.size, want.Len())
	}
}

// A scrape whose client has closed its side while others had the turn is not an empty success.
func TestAScrapeWithoutATurnIsNoSuccess(t *testing.T) {
	o, _ := options()
	free, began := make(chan struct{}), make(chan struct{}, 1)
	o.Registry.MustRegister(&hanging{prometheus.NewDesc("hanging", "Waits.", nil, nil), began, free})
	_, address, get := served(t, o)
	var first sync.WaitGroup
	first.Go(func() { _, _ = get("/metrics") })
	<-began
	c := dial(t, address)
	if _, err := io.WriteString(c, "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || bytes.Contains(got, []byte(" 200 ")) {
		t.Errorf("%q, %v", got, err)
	}
	close(free)
	first.Wait()
}

// hanging is a collector that waits until free is closed.
type hanging struct {
	desc  *prometheus.Desc
	began chan<- struct{}
	free  <-chan struct{}
}

func (c *hanging) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

func (c *hanging) Collect(chan<- prometheus.Metric) {
	select {
	case c.began <- struct{}{}:
	default:
	}
	<-c.free
}
