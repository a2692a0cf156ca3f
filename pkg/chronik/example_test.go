package chronik_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/pkg/chronik"
	"github.com/chronik-io/chronik/pkg/durability"
)

// greet writes a record to a broker and reads it back.
func greet(ctx context.Context, broker *chronik.Broker, word string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()), kgo.Dialer(broker.Dial), kgo.AllowAutoTopicCreation(),
		kgo.DefaultProduceTopic("greetings"), kgo.ConsumeTopics("greetings"))
	if err != nil {
		log.Print(err)
		return
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, kgo.StringRecord(word)).FirstErr(); err != nil {
		log.Print(err)
		return
	}
	for it := client.PollFetches(ctx).RecordIter(); !it.Done(); {
		r := it.Next()
		fmt.Printf("%s-%d@%d: %s\n", r.Topic, r.Partition, r.Offset, r.Value)
	}
}

// A broker in memory, on a free port. In a test, StartTest does what the first and the third line
// do.
func Example() {
	ctx := context.Background()
	broker, err := chronik.OpenMemory(ctx, chronik.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { fmt.Println("closed:", broker.Close()) }()

	greet(ctx, broker, "hello")
	// Output:
	// greetings-0@0: hello
	// closed: <nil>
}

// A broker on a directory keeps what it acknowledged, and gives its log to the program's logger.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "chronik")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	for range 2 {
		broker, err := chronik.Open(ctx, dir, chronik.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			log.Print(err)
			return
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("words"))
		if err != nil {
			log.Print(err)
			return
		}
		r, err := client.ProduceSync(ctx, kgo.StringRecord("word")).First()
		fmt.Println("at", r.Offset, err)
		client.Close()
		stop, cancel := context.WithTimeout(ctx, time.Minute)
		if err := broker.Shutdown(stop); err != nil {
			log.Print(err)
		}
		cancel()
	}
	// Output:
	// at 0 <nil>
	// at 1 <nil>
}

// A durability profile of the program's own, and settings by chronikd's names.
func ExampleOpenMemory() {
	patient := durability.Profile{
		Name: "patient", Doc: "nightly imports", Ack: durability.Synced, Sync: durability.SyncGroup,
		MaxWait: 20 * time.Millisecond, MaxRecords: 5000, MaxBytes: 20 << 20,
	}
	broker, err := chronik.OpenMemory(context.Background(), chronik.Options{
		Profile: "patient", Profiles: []durability.Profile{patient},
		Settings: map[string]string{"num.partitions": "4"},
	})
	fmt.Println(err)
	if err == nil {
		fmt.Println(broker.Close())
	}
	// Output:
	// <nil>
	// <nil>
}

// What Open's errors match decides what a program does about them.
func ExampleOpen_errors() {
	dir, err := os.MkdirTemp("", "chronik")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	first, err := chronik.Open(context.Background(), filepath.Join(dir, "events"), chronik.Options{})
	if err != nil {
		log.Print(err)
		return
	}
	defer func() { _ = first.Close() }()

	_, err = chronik.Open(context.Background(), filepath.Join(dir, "events"), chronik.Options{})
	switch {
	case errors.Is(err, chronik.ErrInUse):
		fmt.Println("another broker has the directory: wait for it to end, or use it")
	case errors.Is(err, chronik.ErrNewer), errors.Is(err, chronik.ErrDamaged):
		fmt.Println("an operator must see this:", err)
	}
	_, err = chronik.Open(context.Background(), dir, chronik.Options{Settings: map[string]string{"num.partition": "4"}})
	fmt.Println(errors.Is(err, chronik.ErrOptions), strings.Contains(err.Error(), "num.partitions"))
	// Output:
	// another broker has the directory: wait for it to end, or use it
	// true true
}

// The program serves the broker's metrics and health with its own.
func ExampleBroker_Metrics() {
	broker, err := chronik.OpenMemory(context.Background(), chronik.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = broker.Close() }()

	own := prometheus.NewRegistry()
	own.MustRegister(collectors.NewBuildInfoCollector())
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{own, broker.Metrics()}, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if h := broker.Health(r.Context()); !h.Ready {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})

	for _, path := range []string{"/metrics", "/readyz"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		fmt.Println(path, w.Code, strings.Contains(w.Body.String(), "\nchronik_ready 1\n"))
	}
	// Output:
	// /metrics 200 true
	// /readyz 200 false
}
